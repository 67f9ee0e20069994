"""Images that are in memory already."""

import dataclasses
import os

import numpy as np

from pipelines._tensorflow import tf
from pipelines.sources.source import Source, check_several

# Names of arrays in a file, as (images, labels).
TRAIN_NAMES = (("x_train", "y_train"), ("images", "labels"), ("x", "y"))
VALIDATION_NAMES = (
    ("x_val", "y_val"),
    ("x_validation", "y_validation"),
    ("x_test", "y_test"),
)


def arrays(images, labels, class_names=None, name="arrays"):
    """A source of images in memory.

    Args:
        images: uint8 array `(n, H, W, C)` or `(n, H, W)`, of 0 to 255.
        labels: Integer array `(n,)`, or `(n, K)` of 0 and 1 where an image may be of several
            classes.
        class_names: Strings; None names the classes 0, 1, 2 and so on.
        name: For messages.

    Raises:
        ValueError: if the arrays do not fit together, or the images are not uint8.
    """
    images, labels = np.asarray(images), np.asarray(labels)
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise ValueError(
            "Images must be uint8 (n, H, W, C) or (n, H, W), of 0 to 255. "
            f"Received: shape={images.shape}, dtype={images.dtype} in {name}"
        )
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]  # as Keras's own data sets have them
    if labels.ndim not in (1, 2) or len(labels) != len(images):
        raise ValueError(
            f"There must be one label, or one row of them, for each of the {len(images)} images. "
            f"Received: labels of shape {labels.shape} in {name}"
        )
    if class_names is None:
        classes = labels.shape[1] if labels.ndim == 2 else int(labels.max(initial=-1)) + 1
        class_names = tuple(map(str, range(classes)))
    pixels = tf.constant(images if images.ndim == 4 else images[..., None])
    return Source(
        name=name,
        labels=labels,
        class_names=tuple(class_names),
        read=lambda i: tf.gather(pixels, i),
        origin=lambda i: f"image {i} of {name}",
        encoded=False,
    )


def array_file(path, split=None, class_names=None):
    """A source of the arrays in an `.npz` file.

    Args:
        path: The file. It has `x_train` and `y_train`, `images` and `labels`, or `x` and `y`; for
            validation also `x_val` and `y_val`, or `x_test` and `y_test`; perhaps `class_names`.
        split: `"validation"` for its validation arrays; None or `"train"` for the others.
        class_names: Strings in the order of the labels. They contain the file's names, whose labels
            become those of this list; a file without names has its labels named. None is the
            file's, or numbers.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it does not have those arrays, or a class is not in `class_names`.
    """
    path = os.fspath(path)
    wanted = VALIDATION_NAMES if split == "validation" else TRAIN_NAMES
    with _opened(path) as file:
        pair = _first_pair(file, wanted)
        if pair is None:
            names = ", or ".join(" and ".join(map(repr, pair)) for pair in wanted)
            raise ValueError(f"{path} must have the arrays {names}. Received: {file.files}")
        images, labels = (file[name] for name in pair)
        if "class_names" in file:
            names = tuple(map(str, file["class_names"]))
        else:
            names = class_names or _numbers(file, labels)
    source = arrays(images, labels, names, path)
    source = dataclasses.replace(source, origin=lambda i: f"image {i} of {pair[0]} in {path}")
    if class_names is not None:
        return source.relabel(class_names)
    if not source.multi_label:
        check_several(source.class_names, path)
    return source


def has_validation(path):
    """Whether an `.npz` file has validation arrays."""
    with _opened(os.fspath(path)) as file:
        return _first_pair(file, VALIDATION_NAMES) is not None


def _numbers(file, labels):
    """Names for the classes of all of the file's labels, so that its splits agree."""
    if labels.ndim == 2 and labels.shape[1] > 1:
        return None
    pairs = [pair for pair in (*TRAIN_NAMES, *VALIDATION_NAMES) if pair[1] in file]
    return tuple(map(str, range(max(int(file[y].max(initial=-1)) for _, y in pairs) + 1)))


def _opened(path):
    if not tf.io.gfile.exists(path):
        raise FileNotFoundError(f"There is no file {path}")
    return np.load(tf.io.gfile.GFile(path, "rb"), allow_pickle=False)


def _first_pair(file, wanted):
    return next((pair for pair in wanted if pair[0] in file and pair[1] in file), None)
