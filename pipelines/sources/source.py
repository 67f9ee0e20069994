"""What a source of images is: labels, and the image of any number."""

import collections
import dataclasses
from collections.abc import Callable

import numpy as np

from pipelines._tensorflow import tf


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """Labelled images that can be read in any order, each when it is asked for.

    Attributes:
        name: What it was opened as, for messages.
        labels: int32 `(n,)`, indices into `class_names`; or float32 `(n, K)` of 0 and 1, where an
            image may be of several classes.
        class_names: Tuple of K strings.
        read: Function of a scalar int64 tensor, the number of an image, that works in a graph: the
            bytes of its file, a scalar string; or its pixels, uint8 `(H, W, C)`.
        origin: Function of an integer to what a message calls the image, such as its path.
        encoded: Whether `read` returns bytes, which are still to be decoded.
        key: Function of an integer to the image's name within the source, by which splits are
            drawn, such as its path in the folder; its number unless it is given.

    Raises:
        ValueError: if there is no image, a label is of no class, or is neither 0 nor 1.
    """

    name: str
    labels: np.ndarray
    class_names: tuple
    read: Callable
    origin: Callable
    encoded: bool = True
    key: Callable = str

    def __post_init__(self):
        object.__setattr__(self, "class_names", tuple(map(str, self.class_names)))
        if not len(self.labels):
            raise ValueError(f"There are no images in {self.name}.")
        if self.multi_label:
            labels = np.asarray(self.labels, "float32")
            _check_multi_hot(labels, len(self.class_names), self.name)
        else:
            check_labels(self.labels, len(self.class_names), self.name)
            labels = np.asarray(self.labels, "int32")
        object.__setattr__(self, "labels", labels)

    @property
    def count(self):
        """How many images there are."""
        return len(self.labels)

    @property
    def multi_label(self):
        """Whether an image may be of several classes."""
        return np.ndim(self.labels) == 2

    @property
    def groups(self):
        """Integers `(n,)`: the same for images of the same class or, of several, classes."""
        if not self.multi_label:
            return self.labels
        return np.unique(self.labels, axis=0, return_inverse=True)[1].reshape(-1)

    def take(self, indices):
        """A source of some of the images.

        Args:
            indices: Integers: which, in their new order.
        """
        indices = np.asarray(indices, "int64")
        numbers = tf.constant(indices)
        return dataclasses.replace(
            self,
            labels=self.labels[indices],
            read=lambda i: self.read(tf.gather(numbers, i)),
            origin=lambda i: self.origin(int(indices[i])),
            key=lambda i: self.key(int(indices[i])),
        )

    def relabel(self, class_names):
        """The same images with labels that are indices into another list of classes.

        Args:
            class_names: Strings that contain every class of this source, each of these once.

        Raises:
            ValueError: if a class is missing, or its name stands for several; says which.
        """
        class_names = tuple(map(str, class_names))
        if class_names == self.class_names:
            return self
        new = new_places(self, class_names)
        if not self.multi_label:
            return dataclasses.replace(self, labels=new[self.labels], class_names=class_names)
        labels = np.zeros((self.count, len(class_names)), "float32")
        labels[:, new] = self.labels
        return dataclasses.replace(self, labels=labels, class_names=class_names)


def new_places(source, class_names):
    """The index in `class_names` of every class of a source, as an array.

    Classes that are only numbers, none of which is a name, are such indices.

    Raises:
        ValueError: if a class is missing, or its name stands for several; says which.
    """
    check_distinct(source.class_names, source.class_names, source.name)
    check_distinct(source.class_names, class_names, source.name)
    places = {name: place for place, name in enumerate(class_names)}
    unknown = [name for name in source.class_names if name not in places]
    if len(unknown) == len(source.class_names) and are_indices(unknown, len(class_names)):
        return np.array(list(map(int, unknown)))
    if unknown:
        raise ValueError(
            f"{source.name} has classes that are not among the {len(class_names)} of the "
            f"training data or the model: {listed(unknown)}. Those are: {listed(class_names)}."
        )
    return np.array([places[name] for name in source.class_names])


def check_distinct(names, class_names, where):
    """Raises a ValueError if one of the names stands for several of `class_names`.

    Two words of ImageNet-1k do, "crane" and "maillot".
    """
    counts = collections.Counter(class_names)
    several = [name for name in dict.fromkeys(names) if counts[name] > 1]
    if several:
        raise ValueError(
            f"Names of classes in {where} stand for more than one class: {listed(several)}. "
            "Give each class a name of its own, such as WordNet's identifiers for ImageNet's."
        )


def check_several(class_names, where, hint=""):
    """Raises a ValueError for a single class, of which every prediction would be right."""
    if len(class_names) == 1:
        raise ValueError(
            f"There is only one class in {where}: {listed(class_names)}. Every prediction would be "
            f"right.{hint}"
        )


def are_numbers(class_names):
    """Whether classes are named 0, 1, 2 and so on, which says no more than their labels do."""
    return list(class_names) == list(map(str, range(len(class_names))))


def are_indices(class_names, classes):
    """Whether classes are named by different numbers below `classes`, as 0, 1 and 3 of 4."""
    return set(class_names) <= set(map(str, range(classes)))


def check_labels(labels, classes, name):
    """Raises a ValueError unless all labels are integers from 0 up to `classes` - 1."""
    labels = np.asarray(labels)
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"Labels must be integers. Received: labels of dtype {labels.dtype} in {name}"
        )
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        first = wrong[0]
        hint = " Do the labels start at 1?" if labels.min() == 1 and labels.max() == classes else ""
        raise ValueError(
            f"Label {labels[first]} at index {first} of {name} is of no class; classes are "
            f"0..{classes - 1}.{hint}"
        )


def _check_multi_hot(labels, classes, name):
    if labels.shape[1] != classes:
        raise ValueError(
            f"Labels must have one column for each of the {classes} classes. "
            f"Received: labels of shape {labels.shape} in {name}"
        )
    wrong = np.argwhere((labels != 0) & (labels != 1))
    if len(wrong):
        row, column = wrong[0]
        raise ValueError(
            f"Labels (n, K) must be 0 or 1. Received: {labels[row, column]} at [{row}, {column}] "
            f"in {name}"
        )


def listed(names, most=10):
    """Names for a message: all, or the first ones and how many more there are."""
    names = list(map(str, names))
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
