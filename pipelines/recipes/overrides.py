"""Fields of a recipe from text: `--optimizer.learning_rate=3e-4`."""

import ast
import dataclasses
import difflib
import types
import typing

from pipelines.sizes import GRAMMAR, parse_size


def override(config, changes):
    """A config with fields changed.

    Args:
        config: A frozen dataclass, perhaps of others.
        changes: `{name: text}`; a name may have dots, and the text is read as the field's type:
            `none` where the field may be None, `true` and `false`, `384x512` or `384,512` for a
            size. A field that is a dict takes single keys, as `model.arguments.pooling`.

    Returns:
        A new config of the same type.

    Raises:
        ValueError: if there is no such field, with those that there are, or the text is not of its
            type.

    Example:

    >>> override(recipe, {"optimizer.learning_rate": "3e-4", "batch_size": "64"})
    """
    fields = {}
    for name, text in changes.items():
        _collect(fields, config, name.split("."), text, name)
    return _replaced(config, fields)


def field_names(config, prefix=""):
    """All names with dots that `override` takes for a config."""
    names = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            names += field_names(value, f"{prefix}{field.name}.")
        else:
            names.append(prefix + field.name)
    return names


def split_arguments(arguments):
    """`{name: text}` of arguments `--name=text`, of which each must have its `=`.

    Raises:
        ValueError: if one is not of that form.
    """
    changes = {}
    for argument in arguments:
        name, equals, text = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or not equals or not name:
            raise ValueError(
                "Fields of the recipe are changed as --name=value. "
                f"Received: {argument!r}. For example: --optimizer.learning_rate=3e-4"
            )
        changes[name.replace("-", "_")] = text
    return changes


def _collect(fields, config, parts, text, whole):
    """Puts the value of one change where it belongs in nested dicts of fields."""
    name, *rest = parts
    known = {field.name: field.type for field in dataclasses.fields(config)}
    value = getattr(config, name) if name in known else None
    if dataclasses.is_dataclass(value) and rest:
        _collect(fields.setdefault(name, {}), value, rest, text, whole)
    elif name not in known or dataclasses.is_dataclass(value):
        raise _unknown(config, whole, parts)
    elif not rest:
        fields[name] = parse(text, known[name], whole)
    elif known[name] is dict and len(rest) == 1:
        fields[name] = {**fields.get(name, value), rest[0]: _literal(text)}
    else:
        raise _unknown(config, whole, parts)


def _replaced(config, fields):
    """All at once, since some fields only make sense together."""
    parts = {
        name: _replaced(getattr(config, name), value)
        if dataclasses.is_dataclass(getattr(config, name))
        else value
        for name, value in fields.items()
    }
    return dataclasses.replace(config, **parts)


def _unknown(config, whole, parts):
    prefix = whole[: len(whole) - len(".".join(parts))]
    names = field_names(config, prefix)
    close = difflib.get_close_matches(whole, names, n=3)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    return ValueError(
        f"There is no field {whole!r} in the recipe.{hint} The fields are: {', '.join(names)}."
    )


def parse(text, kind, name):
    """A text as a value of a type annotation.

    Raises:
        ValueError: if it is none.
    """
    try:
        return _parse(text, kind)
    except (ValueError, SyntaxError, TypeError) as error:
        raise ValueError(f"`{name}` must be {_described(kind)}. Received: {name}={text}") from error


def _parse(text, kind):
    if isinstance(kind, types.UnionType):
        if text.lower() == "none":
            return None
        (kind,) = (option for option in typing.get_args(kind) if option is not type(None))
        return _parse(text, kind)
    if kind == SIZE:
        return parse_size(text)
    if typing.get_origin(kind) is tuple:
        return tuple(_parse(part, typing.get_args(kind)[0]) for part in _parts(text))
    if kind is bool:
        return {"true": True, "false": False}[text.lower()] if text.lower() in _BOOLS else _fail()
    if kind is dict:
        value = ast.literal_eval(text)
        return value if isinstance(value, dict) else _fail()
    if kind is str and not text:
        _fail()
    return kind(text)


_BOOLS = ("true", "false")
SIZE = tuple[int, int]


def _parts(text):
    return [part.strip() for part in text.strip("()[] ").split(",") if part.strip()]


def _fail():
    raise ValueError


def _literal(text):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def _described(kind):
    if isinstance(kind, types.UnionType):
        return " or ".join(map(_described, typing.get_args(kind)))
    if kind == SIZE:
        return GRAMMAR
    if typing.get_origin(kind) is tuple:
        return "numbers with commas between them"
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}
    return names.get(kind, "none" if kind is type(None) else "a dict, such as {'pooling': 'avg'}")
