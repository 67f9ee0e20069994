"""Files that appear whole or not at all."""

import contextlib
import os
import pathlib
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
