"""Files that appear whole or not at all."""

import contextlib
import os
import pathlib
import shutil
import uuid
from collections.abc import Iterator


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator:
    """Opens a binary file beside `path` that takes its place when the block ends without an error.

    The file keeps the permissions that a plain `open` would give it, which a temporary file of the
    `tempfile` module would not.

    Args:
        path: Where the file shall be. An existing file stays until the new one is complete.

    Yields:
        The file, open for writing.

    Example:

    >>> with atomic_write("weights.bin") as file:
    ...     file.write(b"...")
    """
    path = pathlib.Path(path)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """A path beside `path` whose file takes its place when the block ends without an error.

    For writers that open the file by themselves, or write a folder. Its name ends as that of
    `path`, by which Keras and others tell the format.

    Args:
        path: Where the file or folder shall be. An existing file stays until the new one is
            complete; a folder that is not empty is not replaced.

    Yields:
        The path to write to.

    Example:

    >>> with atomic_path("model.keras") as beside:
    ...     model.save(beside)
    """
    path = pathlib.Path(path)
    beside = path.with_name(f".{uuid.uuid4().hex}.{path.name}")
    try:
        yield beside
        os.replace(beside, path)
    finally:
        if beside.is_dir():
            shutil.rmtree(beside)
        beside.unlink(missing_ok=True)
