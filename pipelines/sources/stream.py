"""Labelled images that can only be read one after the other."""

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np

from pipelines._tensorflow import tf
from pipelines.images.decoding import tensorflow_reason
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
        numbers: int64 `(count,)`, the numbers that the records have in the files; None where these
            are all there are.
        known_groups: Function to `groups`, where another stream knows them; or None.
    """

    name: str
    class_names: tuple
    count: int
    size: int
    records: Callable
    numbers: np.ndarray | None = None
    known_groups: Callable | None = None

    def __post_init__(self):
        if self.count < 1:
            raise ValueError(f"There are no images in {self.name}.")

    @property
    def multi_label(self):
        """Whether an image may be of several classes."""
        return self.records().element_spec[1].shape.rank == 1

    @functools.cached_property
    def groups(self):
        """As of a `Source`. All records are read for it once, and no image is decoded."""
        if self.known_groups is not None:
            return self.known_groups()
        labels = (label for (label,) in self.each(lambda image, label: (label,)))
        if not self.multi_label:
            labels = np.fromiter(labels, "int64")
            check_labels(labels, len(self.class_names), self.name)
            return labels
        places = {}  # a bit for every class of every image could be more than memory holds
        sets = (np.packbits(label > 0).tobytes() for label in labels)
        return np.fromiter((places.setdefault(one, len(places)) for one in sets), "int64")

    def origin(self, i):
        """What a message calls a record."""
        return f"record {self.key(i)} of {self.name}"

    def key(self, i):
        """The number of a record in the files, by which splits are drawn."""
        return str(i if self.numbers is None else self.numbers[i])

    def each(self, function):
        """What a function makes of every record, in their order, as NumPy values.

        Args:
            function: Function of `(bytes of the image file, label)` to a tuple of tensors.

        Raises:
            ValueError: if the files are damaged, or hold more or fewer images than they should.
        """
        made = self.records().map(function, tf.data.AUTOTUNE, deterministic=True)
        count = 0
        try:
            for batch in made.batch(64).prefetch(1).as_numpy_iterator():
                count += len(batch[0])
                yield from zip(*batch, strict=True)
        except tf.errors.OpError as error:
            raise ValueError(f"{self.name} cannot be read: {tensorflow_reason(error)}") from error
        if count != self.count:
            raise ValueError(
                f"{self.name} was said to hold {self.count} images, and holds {count}."
            )

    def in_memory(self):
        """A `Source` that holds all encoded images, and can give them in any order."""
        images, labels = zip(*self.each(lambda image, label: (image, label)), strict=True)
        table = tf.constant(images, tf.string)
        return Source(
            name=self.name,
            labels=np.array(labels),
            class_names=self.class_names,
            read=lambda i: tf.gather(table, i),
            origin=self.origin,
            key=self.key,
        )

    def take(self, indices):
        """A stream of some of the records, in their order here.

        Args:
            indices: Integers: which.
        """
        chosen = np.zeros(self.count, bool)
        chosen[np.asarray(indices, int)] = True
        mask, taken = tf.constant(chosen), np.flatnonzero(chosen)

        def records():
            numbered = self.records().enumerate()
            numbered = numbered.filter(lambda number, record: tf.gather(mask, number))
            return numbered.map(lambda number, record: record)

        return dataclasses.replace(
            self,
            count=len(taken),
            size=self.size * len(taken) // self.count,
            records=records,
            numbers=taken if self.numbers is None else self.numbers[taken],
            known_groups=lambda: self.groups[taken],
        )

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
            self,
            class_names=class_names,
            records=lambda: self.records().map(renamed),
            known_groups=lambda: self.groups,  # who is of one class still is
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


def in_memory(source, most=math.inf):
    """A `Source` as it is; of a `RecordStream` of no more than so many bytes, one that holds them.

    Args:
        source: A `Source` or `RecordStream`.
        most: Integer, bytes. Larger streams stay streams.
    """
    small = isinstance(source, RecordStream) and source.size <= most
    return source.in_memory() if small else source
