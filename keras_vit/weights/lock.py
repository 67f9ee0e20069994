"""A lock between processes that the operating system releases when its holder dies."""

import contextlib
import os
import pathlib
import time
from collections.abc import Callable, Iterator

POLL = 0.2  # seconds


@contextlib.contextmanager
def locked(path: str | os.PathLike, on_wait: Callable[[], None] = lambda: None) -> Iterator[bool]:
    """Holds an exclusive lock for the block, waiting for whoever has it.

    There are no stale locks to clean up: a lock goes with its process, killed or not. The file
    itself is removed at the end, and means nothing if it stays.

    Args:
        path: The lock's file.
        on_wait: Called once if somebody else holds the lock.

    Yields:
        Whether the lock is held. False means that the file system cannot lock.
    """
    path = pathlib.Path(path)
    descriptor, held = _acquire(path, on_wait)
    try:
        yield held
    finally:
        if held:
            # Under the lock, so that nobody's new lock is removed. Windows keeps open files.
            with contextlib.suppress(OSError):
                path.unlink()
        os.close(descriptor)


def _acquire(path, on_wait):
    waited = False
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            got = _try_lock(descriptor)
        except OSError:
            return descriptor, False
        if got and _is_at(descriptor, path):
            return descriptor, True
        os.close(descriptor)  # held by another, or removed by its last holder in the meantime
        if not got:
            if not waited:
                on_wait()
            waited = True
            time.sleep(POLL)


def _is_at(descriptor, path):
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


if os.name == "nt":
    import errno
    import msvcrt

    def _try_lock(descriptor):
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EDEADLK):
                return False
            raise
        return True

else:
    import fcntl

    def _try_lock(descriptor):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
