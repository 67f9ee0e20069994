"""Labelled images that can only be read one after the other."""

import dataclasses
from collections.abc import Callable

import numpy as np

from pipelines._tensorflow import tf
from pipelines.sources.source import Source, check_labels, new_places


@dataclasses.dataclass(frozen=True, eq=False)
class RecordStream:
    """Encoded images in files that hold many, in a fixed order.

    Attributes:
        name: What it was opened as, for messages.
        class_names: Tuple of K strings.
        count: Integer, how many images there are.
        size: Integer, about how many bytes they are.
        records: Function to a `tf.data.Dataset` of all `(bytes of the image file, label)`, always
            in the same order; a label is an int64 scalar, or float32 `(K,)` of 0 and 1.
    """

    name: str
    class_names: tuple
    count: int
    size: int
    records: Callable

    def __post_init__(self):
        if self.count < 1:
            raise ValueError(f"There are no images in {self.name}.")

    @property
    def multi_label(self):
        """Whether an image may be of several classes."""
        return self.records().element_spec[1].shape.rank == 1

    def in_memory(self):
        """A `Source` that holds all encoded images, and can give them in any order."""
        images, labels = [], []
        try:
            for image, label in self.records().prefetch(64).as_numpy_iterator():
                images.append(image)
                labels.append(label)
        except tf.errors.OpError as error:
            raise ValueError(f"{self.name} cannot be read: {error.message}") from error
        if len(images) != self.count:
            raise ValueError(
                f"{self.name} was said to hold {self.count} images, and holds {len(images)}."
            )
        table, name = tf.constant(images, tf.string), self.name
        return Source(
            name=name,
            labels=np.array(labels),
            class_names=self.class_names,
            read=lambda i: tf.gather(table, i),
            origin=lambda i: f"record {i} of {name}",
        )

    def take(self, indices):
        """A stream of some of the records, in their order here.

        Args:
            indices: Integers: which.
        """
        chosen = np.zeros(self.count, bool)
        chosen[np.asarray(indices, int)] = True
        mask, size = tf.constant(chosen), int(self.size * chosen.sum() / self.count)

        def records():
            numbered = self.records().enumerate()
            numbered = numbered.filter(lambda number, record: tf.gather(mask, number))
            return numbered.map(lambda number, record: record)

        return dataclasses.replace(self, count=int(chosen.sum()), size=size, records=records)

    def relabel(self, class_names):
        """As `Source.relabel`."""
        class_names = tuple(map(str, class_names))
        if class_names == self.class_names:
            return self
        new = new_places(self, class_names)
        matrix = tf.one_hot(new, len(class_names))

        def renamed(image, label):
            if label.shape.rank == 1:
                return image, tf.linalg.matvec(matrix, label, transpose_a=True)
            return image, tf.gather(tf.constant(new, "int64"), self.checked(label))

        return dataclasses.replace(
            self, class_names=class_names, records=lambda: self.records().map(renamed)
        )

    def checked(self, label):
        """The label; where it is of no class, the error that a `Source` raises at once."""
        if label.shape.rank == 1:
            return label

        def refuse(label):
            check_labels(np.array([label]), len(self.class_names), self.name)
            return np.asarray(label, "int64")

        known = (label >= 0) & (label < len(self.class_names))
        checked = tf.cond(
            known, lambda: label, lambda: tf.numpy_function(refuse, [label], tf.int64)
        )
        return tf.ensure_shape(checked, ())
