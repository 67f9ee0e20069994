"""One way to write where images come from, in Python and on the command line.

    photos/                          a folder with one folder a class, or with train/ and val/
    labels.csv, labels.jsonl         a table of paths and labels, perhaps with a column `split`
    arrays.npz                       x_train, y_train and perhaps x_val, y_val
    tfds:NAME                        a TFDS data set: `tfds:cifar10:3.0.2,split=train[:90%]`
    records:PATTERN                  TFRecord files: `records:data/train-*`
    fashion_mnist                    what comes with the package
    fashion_mnist:FOLDER             all of it, from the files as they are published

Options follow after commas, `,name=value`: the arguments of the function that opens that kind.
"""

import inspect
import os
import re

from pipelines._tensorflow import tf
from pipelines.sources import arrays as array_sources
from pipelines.sources import folders, image_folder, records, table, tfds
from pipelines.sources.fashion_mnist import fashion_mnist_source
from pipelines.sources.source import Source, listed
from pipelines.sources.stream import RecordStream

SPLITS = ("train", "validation")
_OPTION = re.compile(r",(?=[a-z_]+=)")


def open_source(source, split="train", class_names=None):
    """The images that a text names, or that are given.

    Args:
        source: A text as described above, or a path; a `Source` or `RecordStream`; or arrays
            `(images, labels)`, as of `pipelines.sources.arrays.arrays`.
        split: `"train"` or `"validation"`. A source without parts is all in `"train"`.
        class_names: Strings in the order of the labels; None is the source's own.

    Returns:
        A `Source` or a `RecordStream`; None where there is no validation part.

    Raises:
        FileNotFoundError: if nothing is there.
        ValueError: if the text is none of these, or what is there is not as it should be.
    """
    if split not in SPLITS:
        raise ValueError(f"`split` must be 'train' or 'validation'. Received: split={split!r}")
    if isinstance(source, (Source, RecordStream)):
        return _renamed(source, class_names) if split == "train" else None
    if isinstance(source, (tuple, list)):
        if len(source) != 2:
            raise ValueError(
                "Arrays are given as (images, labels), and names of classes as `class_names`. "
                f"Received: {len(source)} parts"
            )
        return array_sources.arrays(*source, class_names) if split == "train" else None
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(
            "`source` must be a text or path, a source, or arrays (images, labels). "
            f"Received: source={source!r} (of type {type(source).__name__})"
        )
    text, options = os.fspath(source), []
    if not tf.io.gfile.exists(text):  # or it is a path with a comma
        text, *options = _OPTION.split(text)
    options = dict(option.split("=", 1) for option in options)
    return _opener(text)(text, split, class_names, options)


def _opener(text):
    if text.startswith("tfds:"):
        return _open_tfds
    if text.startswith("records:"):
        return _open_records
    if text.startswith("fashion_mnist:"):
        return _open_fashion_mnist
    if text.lower().endswith((".csv", ".jsonl")):
        return _open_table
    if text.lower().endswith(".npz"):
        return _open_arrays
    if text == "fashion_mnist" and not folders.is_folder(text):
        return _open_fashion_mnist
    return _open_folder


def _open_folder(text, split, class_names, options):
    if not folders.is_folder(text):
        raise FileNotFoundError(
            f"There is no folder {text!r}. A source is a folder, a .csv, .jsonl or .npz file, "
            "tfds:NAME, records:PATTERN, fashion_mnist or fashion_mnist:FOLDER."
        )
    train, validation = image_folder.split_folders(text)
    options = _options(image_folder.image_folder, options)
    if train is None:
        whole = image_folder.image_folder
        return whole(text, class_names, **options) if split == "train" else None
    part = train if split == "train" else validation
    if part is None:
        return None
    return image_folder.image_folder(folders.join(text, part), class_names, **options)


def _open_table(text, split, class_names, options):
    options = _options(table.table, options)
    if table.has_splits(text):
        return table.table(text, split, class_names, **options)
    return table.table(text, None, class_names, **options) if split == "train" else None


def _open_arrays(text, split, class_names, options):
    _options(None, options)
    if split == "validation" and not array_sources.has_validation(text):
        return None
    return array_sources.array_file(text, split, class_names)


def _open_tfds(text, split, class_names, options):
    options = _options(tfds.tfds, options, also=("validation_split",))
    name, own = text.removeprefix("tfds:"), options.pop("validation_split", None)
    if split == "validation":
        if own is None and "split" not in options:
            own = tfds.own_validation(name, options.get("data_dir"))
        if own is None:
            return None
        options["split"] = own
    return _renamed(tfds.tfds(name, **options), class_names)


def _open_records(text, split, class_names, options):
    if split == "validation":
        return None
    options = _options(records.records, options)
    return records.records(text.removeprefix("records:"), class_names, **options)


def _open_fashion_mnist(text, split, class_names, options):
    _options(None, options)
    _, colon, folder = text.partition(":")
    part = "train" if split == "train" else "test"
    source = fashion_mnist_source(part, folder if colon else None)
    return _renamed(source, class_names)


def _renamed(source, class_names):
    return source if class_names is None else source.relabel(class_names)


def _options(function, options, also=()):
    """The options as keyword arguments of a function; a ValueError for one that it has not."""
    known = list(inspect.signature(function).parameters)[1:] if function else []
    known = [name for name in known if name != "class_names"] + list(also)
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ValueError(
            f"A source of this kind has the options {known}. Received: {listed(unknown)}"
        )
    words = {"true": True, "false": False}
    return {name: words.get(value.lower(), value) for name, value in options.items()}
