"""Tables of paths and labels: CSV and JSON lines."""

import csv
import io
import json
import os
import re

import numpy as np

from pipelines._tensorflow import tf
from pipelines.sources import folders
from pipelines.sources.image_folder import TRAIN, VALIDATION, file_source
from pipelines.sources.source import check_several, listed

PATH_COLUMNS = ("path", "file", "filename", "file_name", "image")
LABEL_COLUMNS = ("label", "labels", "class", "target")
SPLIT_COLUMN = "split"


def table(path, split=None, class_names=None, path_column=None, label_column=None, separator="|"):
    """A source of the images that a table lists, one a row.

    A CSV file has a line of column names; each line of a JSON-lines file (`.jsonl`) is an object.
    Paths are relative to the table's folder unless they are absolute. A label is the name of a
    class. An image may be of several classes: `cat|dog` in CSV, `["cat", "dog"]` in JSON lines;
    where any row is, or any label is a list, all labels are `(K,)` of 0 and 1, and an empty label
    is an image of no class.

    Args:
        path: The table, `.csv` or `.jsonl`.
        split: `"train"` or `"validation"`: takes the rows whose column `split` says so, or one of
            the words that folders may have for it. `test` is one of those for validation where no
            row has another; else these rows are of neither. None takes all rows.
        class_names: Strings in the order of the labels; None is all that the table names, in order
            of their text, or of their numbers where all are numbers.
        path_column: Column of the paths; None is the first of path, file, filename, file_name and
            image that there is.
        label_column: Column of the labels; None is the first of label, labels, class and target.
        separator: What stands between several classes of a row in CSV.

    Raises:
        FileNotFoundError: if there is no such table.
        ValueError: if a column is missing, a row has no path, label or known split, or a class is
            not in `class_names` or there more than once.
    """
    path = os.fspath(path)
    rows = _rows(path)
    path_column = _column(rows, path_column, PATH_COLUMNS, "path_column", path)
    label_column = _column(rows, label_column, LABEL_COLUMNS, "label_column", path)
    names = _whole([_classes(row.get(label_column), separator) for row in rows])
    known = _in_order({name for row in names for name in row})
    several = any(len(row) > 1 for row in names)
    several = several or any(isinstance(row.get(label_column), list) for row in rows)
    if not several:
        _check_labelled(names, label_column, path)
    splits = _splits(rows, path)
    chosen = [i for i in range(len(rows)) if split in (None, splits[i])]
    if not chosen:
        raise ValueError(f"{path} has no rows of the split {split!r}.")
    if not several and class_names is None:
        check_several(known, path)
    files = [_file(rows[i], path_column, path, i) for i in chosen]
    labels = _labels([names[i] for i in chosen], known, several)
    root = os.path.dirname(path) or "."
    source = file_source(path, *_relative(files, root), labels, known)
    return source if class_names is None else source.relabel(class_names)


def has_splits(path):
    """Whether a table has validation rows of its own."""
    path = os.fspath(path)
    return "validation" in _splits(_rows(path), path)


def _rows(path):
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            text = file.read().decode("utf-8-sig")
    except tf.errors.NotFoundError as error:
        raise FileNotFoundError(f"There is no file {path}") from error
    rows = _csv_rows(text, path) if path.lower().endswith(".csv") else _json_rows(text, path)
    if not rows:
        raise ValueError(f"There are no rows in {path}.")
    return rows


def _csv_rows(text, path):
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    for i, row in enumerate(rows):
        if None in row:  # where the reader puts what is over
            raise ValueError(
                f"Row {i + 1} of {path} has more values than there are columns: {row[None]}. "
                "A value with a comma in it is written in quotes."
            )
    return rows


def _json_rows(text, path):
    rows = []
    for i, line in enumerate(text.splitlines()):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"Line {i + 1} of {path} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f"Line {i + 1} of {path} must be an object. Received: {line[:80]}")
        rows.append(row)
    return rows


def _column(rows, name, usual, argument, path):
    columns = list(rows[0])
    found = [name] if name is not None else [column for column in usual if column in columns]
    if not found or found[0] not in columns:
        raise ValueError(
            f"{path} must have a column {' or '.join(map(repr, [name] if name else usual))}. "
            f"Received: columns {listed(columns)}. Name yours with `{argument}`."
        )
    return found[0]


def _splits(rows, path):
    """The split of every row, `"test"` where others validate; nothing where no row has one."""
    words = [str(row.get(SPLIT_COLUMN) or "").strip().lower() for row in rows]
    if not any(words):
        return words
    meant = dict.fromkeys(TRAIN, "train") | dict.fromkeys(VALIDATION, "validation")
    if set(words) & set(VALIDATION) - {"test"}:
        meant["test"] = "test"  # left alone, as the folder `test` beside `val`
    for i, word in enumerate(words):
        if word not in meant:
            raise ValueError(
                f"Row {i + 1} of {path} has the split {word!r}. It must be one of {listed(meant)}."
            )
    return [meant[word] for word in words]


def _check_labelled(names, column, path):
    if [] in names:
        raise ValueError(
            f"Row {names.index([]) + 1} of {path} has no {column!r}. Only where images may be of "
            'several classes does that mean none: write `["cat"]` and `[]` in JSON lines.'
        )


def _classes(value, separator):
    if value is None:
        return []
    values = value if isinstance(value, list) else str(value).split(separator)
    return [str(name).strip() for name in values if str(name).strip()]


def _whole(names):
    """Numbers as they are meant: 2 for "2.0", as labels are written beside a missing one."""
    if not all(re.fullmatch(r"\d+(\.0+)?", name) for row in names for name in row):
        return names
    return [[name.partition(".")[0] for name in row] for row in names]


def _in_order(names):
    if all(name.isdecimal() for name in names):
        return sorted(names, key=int)
    return sorted(names)


def _file(row, column, path, number):
    if not row.get(column):
        raise ValueError(f"Row {number + 1} of {path} has no {column!r}.")
    return str(row[column])


def _labels(names, known, several):
    places = {name: place for place, name in enumerate(known)}
    if not several:
        return np.array([places[row[0]] for row in names], "int32")
    labels = np.zeros((len(names), len(known)), "float32")
    for row, of_row in zip(labels, names, strict=True):
        row[[places[name] for name in of_row]] = 1
    return labels


def _relative(files, root):
    """The root and the files relative to it; absolute paths have the root of the file system."""
    if not any(_is_absolute(file) for file in files):
        return root, files
    if any("://" in file for file in [root, *files]):
        files = [file if _is_absolute(file) else folders.join(root, file) for file in files]
        prefix = os.path.commonprefix(files).rpartition("/")[0]
    else:
        files = [os.path.abspath(os.path.join(root, file)) for file in files]
        prefix = "/"
    return prefix, [file[len(prefix) :].lstrip("/") for file in files]


def _is_absolute(file):
    return "://" in file or os.path.isabs(file)
