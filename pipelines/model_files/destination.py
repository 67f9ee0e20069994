"""The rule for writing a model where something is already."""

import pathlib


def check_free(paths, overwrite):
    """Refuses to write over files and folders, unless that was asked for.

    Args:
        paths: What will be written.
        overwrite: Whether what is there may be replaced.

    Raises:
        ValueError: if one is there; an empty folder counts as nothing.
    """
    there = [path for path in map(pathlib.Path, paths) if _is_taken(path)]
    if there and not overwrite:
        raise ValueError(
            "There is something already. Write elsewhere, or replace it: `overwrite=True`, on the "
            f"command line `--overwrite`. Received: '{there[0]}'"
        )


def add_overwrite_argument(parser):
    """The option `--overwrite` of a command."""
    parser.add_argument("--overwrite", action="store_true", help="replace what is there")


def _is_taken(path):
    return any(path.iterdir()) if path.is_dir() else path.exists()
