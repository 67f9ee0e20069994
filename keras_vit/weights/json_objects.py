"""JSON objects beside and inside checkpoints."""

import json
import pathlib


def read(path: pathlib.Path) -> dict | None:
    """The JSON object in a file, None if there is no such file.

    Raises:
        ValueError: if it holds something else.
    """
    if not path.exists():
        return None
    return parsed(path.read_bytes(), path)


def parsed(text: str | bytes, path: pathlib.Path) -> dict:
    """The JSON object that a text from a file says."""
    try:
        value = json.loads(text)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"The file must hold JSON ({error}). Received: path='{path}'") from error
    if not isinstance(value, dict):
        raise ValueError(f"The file must hold a JSON object. Received: path='{path}'")
    return value
