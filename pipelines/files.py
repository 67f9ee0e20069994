"""Files on a disk or where `tf.io.gfile` reaches, such as `gs://`.

A file is written whole before it has its name. On a disk that is a rename, which is atomic. On an
object store the rename is a copy of a complete object, and a delete: a reader finds the old object
or the new one, and a process that is killed in between leaves a hidden file, nothing half.
"""

import contextlib
import os
import pathlib
import tempfile
import uuid

from keras_vit.weights.atomic import atomic_path, atomic_write
from pipelines._tensorflow import tf

UNFINISHED = (".tmp", ".keras", ".npz", ".json", ".csv", ".png", ".npy")


def is_remote(path):
    """Whether a path names a file system, as `gs://bucket/run` does."""
    return "://" in os.fspath(path)


def join(folder, *names):
    """A path in a folder, as text."""
    if is_remote(folder):
        return "/".join([os.fspath(folder).rstrip("/"), *names])
    return os.path.join(os.fspath(folder), *names)


def absolute(path):
    """A path that does not depend on the working directory."""
    return os.fspath(path) if is_remote(path) else os.path.abspath(path)


def exists(path):
    """Whether there is a file or folder."""
    return tf.io.gfile.exists(os.fspath(path))


def make_folder(path):
    """Makes a folder and those above it."""
    tf.io.gfile.makedirs(os.fspath(path))


def open_to_read(path):
    """A binary file, for `with`."""
    if is_remote(path):
        return tf.io.gfile.GFile(os.fspath(path), "rb")
    return open(path, "rb")


def read_text(path):
    """The text of a file."""
    with open_to_read(path) as file:
        return file.read().decode()


@contextlib.contextmanager
def written(path):
    """A binary file that takes its place at `path` when the block ends without an error.

    Args:
        path: Where the file shall be. An existing file stays until the new one is complete.

    Yields:
        The file, open for writing; a reader that seeks is served too.
    """
    if not is_remote(path):
        with atomic_write(path) as file:
            yield file
        return
    with written_by_path(path) as local, open(local, "wb") as file:
        yield file


@contextlib.contextmanager
def written_by_path(path):
    """The same for writers that open the file by themselves.

    Args:
        path: Where the file shall be.

    Yields:
        The path of a file on a disk, whose name ends as that of `path`.
    """
    if not is_remote(path):
        with atomic_path(path) as beside:
            yield beside
        return
    folder, _, name = os.fspath(path).rpartition("/")
    with written_into(folder) as here:
        yield here / name


@contextlib.contextmanager
def written_into(folder):
    """The same for writers of several files.

    Args:
        folder: Where the files shall be, not on a disk.

    Yields:
        The path of a folder on a disk.
    """
    with tempfile.TemporaryDirectory() as here:
        yield pathlib.Path(here)
        for local in sorted(pathlib.Path(here).iterdir()):
            beside = join(folder, f".{uuid.uuid4().hex}.{local.name}")
            try:
                tf.io.gfile.copy(str(local), beside)
                tf.io.gfile.rename(beside, join(folder, local.name), overwrite=True)
            except BaseException:
                if exists(beside):
                    tf.io.gfile.remove(beside)
                raise


def remove_unfinished(folder):
    """Removes what a process left in a folder that was killed while it wrote."""
    for name in tf.io.gfile.listdir(os.fspath(folder)):
        if name.startswith(".") and name.endswith(UNFINISHED):
            with contextlib.suppress(tf.errors.NotFoundError):
                tf.io.gfile.remove(join(folder, name))
