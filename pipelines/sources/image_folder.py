"""Folders of images, one folder a class."""

import os
import warnings

import numpy as np

from pipelines._tensorflow import tf
from pipelines.sources import folders
from pipelines.sources.source import Source, check_several, listed

TRAIN = ("train", "training")
VALIDATION = ("val", "valid", "validation", "test")


def image_folder(path, class_names=None, folder_is_index=False):
    """A source of the images in `path/CLASS/`, at any depth below it.

    Classes are in the order of their names as text, so that `10` comes before `2`; a warning says
    so where it matters.

    Args:
        path: A folder, also of a kind that TensorFlow knows, such as `gs://`.
        class_names: Strings in the order of the labels, the training data's; None is the folders.
        folder_is_index: Whether the folders' names are the labels, 0, 1, 2 and so on.

    Raises:
        FileNotFoundError: if there is no such folder.
        ValueError: if there are no images, only one class, or a class that is not among
            `class_names`.
    """
    root = os.fspath(path).rstrip("/") or "/"
    if not folders.is_folder(root):
        raise FileNotFoundError(f"There is no folder {root}")
    names, loose, hidden = folders.entries(root)
    if not names:
        raise ValueError(
            f"There must be one folder for each class in {root}. "
            f"Received: {len(loose)} files and no folder."
        )
    paths, labels, others = [], [], list(loose)
    for label, name in enumerate(names):
        files, below_hidden, below_others = folders.image_files(folders.join(root, name))
        paths += [f"{name}/{file}" for file in files]
        labels += [label] * len(files)
        hidden += [f"{name}/{file}" for file in below_hidden]
        others += [f"{name}/{file}" for file in below_others]
    folders.name_ignored(root, hidden, others)
    _check_classes(root, names, labels, class_names)
    order = _by_number(names, root) if folder_is_index else names
    if not folder_is_index and class_names is None:
        _warn_of_text_order(names, root)
    source = file_source(root, root, paths, np.array(labels, "int32"), names)
    return source.relabel(order if class_names is None else class_names)


def file_source(name, root, paths, labels, class_names):
    """A source of image files.

    Args:
        name: For messages.
        root: The folder that `paths` are relative to.
        paths: List of strings.
        labels: As of `Source`.
        class_names: As of `Source`.
    """
    table = tf.constant(paths, shape=(len(paths),), dtype=tf.string)
    prefix = root.rstrip("/") + "/"
    return Source(
        name=name,
        labels=labels,
        class_names=tuple(class_names),
        read=lambda i: tf.io.read_file(prefix + tf.gather(table, i)),
        origin=lambda i: prefix + paths[i],
        key=lambda i: paths[i],
    )


def split_folders(path):
    """The names of the training and the validation folder in `path`; None for each that is not."""
    names, _, _ = folders.entries(os.fspath(path))
    lower = {name.lower(): name for name in names}
    return tuple(
        next((lower[word] for word in words if word in lower), None)
        for words in (TRAIN, VALIDATION)
    )


def _check_classes(root, names, labels, class_names):
    there = set(labels)
    empty = [name for label, name in enumerate(names) if label not in there]
    if len(empty) == len(names):
        raise ValueError(f"There are no images in {root} nor in its folders {listed(names)}.")
    if empty:
        warnings.warn(f"{root}: no image in the folders {listed(empty)}.", stacklevel=4)
    if class_names is None:
        check_several(names, root, " Did you mean the folder above it?")


def _warn_of_text_order(names, root):
    if all(name.isdecimal() for name in names) and sorted(names, key=int) != list(names):
        warnings.warn(
            f"{root}: the classes are named by numbers and sorted as text, {listed(names, 5)}: "
            "a label is not its folder's number. Pass `folder_is_index=True` if it shall be.",
            stacklevel=4,
        )


def _by_number(names, root):
    wrong = [name for name in names if not name.isdecimal()]
    numbers = {} if wrong else {int(name): name for name in names}
    if wrong or len(numbers) < len(names):
        raise ValueError(
            f"With `folder_is_index=True` the folders in {root} must be named 0, 1, 2 and so on. "
            f"Received: {listed(wrong or names)}"
        )
    return [numbers.get(i, str(i)) for i in range(max(numbers) + 1)]
