"""Names of classes: ImageNet-1k's, which come with the library, and those in a file of the user."""

import functools
import json
import pathlib

_FILE = pathlib.Path(__file__).parent / "imagenet_classes.txt"


@functools.cache
def imagenet_classes():
    """`(WordNet identifier, name)` of the 1,000 classes of ILSVRC-2012, in the order of the heads.

    The name is the first of the synset's words. Two names stand for two classes each, "crane" (the
    bird, 134, and the machine, 517) and "maillot" (638 and 639); the identifiers tell them apart.
    """
    return tuple(tuple(line.split()) for line in _FILE.read_text().splitlines())


@functools.cache
def imagenet_names():
    """The names alone, as `class_names` of a spec."""
    return tuple(name for _, name in imagenet_classes())


def class_labels(names):
    """`(identifier, name)` of each class: WordNet's for ImageNet-1k, else the index.

    Args:
        names: Sequence of names in the order of the classes.
    """
    if tuple(names) == imagenet_names():
        return imagenet_classes()
    return tuple(enumerate(names))


def class_names(source, classes):
    """The names of a head's classes, from a file or a sequence.

    Args:
        source: A sequence of names, or the path of a file: a text with one name a line, or JSON, a
            list of names or an object of index to name (`id2label`) or to `[identifier, name]`, or
            what `keras-vit export` writes.
        classes: How many classes the head has.

    Returns:
        Tuple of strings.

    Raises:
        ValueError: if they are not as many, or the file holds something else.
    """
    is_path = isinstance(source, (str, pathlib.PurePath))
    names = _read(pathlib.Path(source)) if is_path else tuple(source)
    where = f"'{source}'" if is_path else "a sequence"
    if not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"`class_names` must be text. Received: {where} with {names[:3]!r} among others"
        )
    if len(names) != classes:
        raise ValueError(
            f"`class_names` must have one name for each of the {classes} classes. "
            f"Received: {where} with {len(names)} names"
        )
    return names


def _read(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".json":
        return tuple(line.strip() for line in text.splitlines() if line.strip())
    try:
        return tuple(_from_json(json.loads(text)))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            "A JSON file of class names must be a list of names, or an object with a name for "
            f"every index from 0 on. Received: path='{path}'"
        ) from error


def _from_json(value):
    if isinstance(value, dict) and "class_names" in value:
        value = value["class_names"]
    if isinstance(value, list):
        return value
    names = [value[str(index)] for index in range(len(value))]
    return [name[-1] if isinstance(name, list) else name for name in names]
