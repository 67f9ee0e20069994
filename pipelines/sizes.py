"""Sizes as they are typed, the same on every command line: 224, 384x512 or 384,512."""

import argparse
import re

GRAMMAR = "one side, as 224, or height and width, as 384x512 or 384,512"
_SIZE = re.compile(r"(\d+)(?:\s*[x,]\s*(\d+))?")


def parse_size(text):
    """`(height, width)` of a text.

    Raises:
        ValueError: if it is no size, or a side is 0.

    Example:

    >>> parse_size("384x512")
    (384, 512)
    """
    found = _SIZE.fullmatch(text.strip("()[] ").lower())
    sides = found and (int(found[1]), int(found[2] or found[1]))
    if not sides or 0 in sides:
        raise ValueError(f"A size is {GRAMMAR}. Received: '{text}'")
    return sides


def size(text):
    """The same for `type=` of an option."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
