"""Names of files and folders, also of `gs://`, and which of them are no images."""

import os
import warnings

from pipelines._tensorflow import tf
from pipelines.sources.source import listed

SUFFIXES = (".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
# What systems leave in folders.
_SYSTEM = {"thumbs.db", "desktop.ini", "__macosx", "@eadir", "$recycle.bin"}

# Folders that were spoken of already; each is named once.
_named = set()


def join(*parts):
    """A path, with one slash between its parts."""
    return "/".join([*(part.rstrip("/") for part in parts[:-1]), parts[-1]])


def is_folder(path):
    """Whether there is a folder of that path."""
    return tf.io.gfile.isdir(os.fspath(path))


def entries(folder):
    """`(folders, files, hidden)` of a folder, each sorted; the last are those of the system."""
    folders, files, hidden = [], [], []
    for name in sorted(tf.io.gfile.listdir(folder)):
        bare = name.rstrip("/")
        if is_hidden(bare):
            hidden.append(bare)
        # What is named as an image is not asked for its kind: that costs a request each on gs://.
        elif not bare.lower().endswith(SUFFIXES) and is_folder(join(folder, bare)):
            folders.append(bare)
        else:
            files.append(bare)
    return folders, files, hidden


def image_files(folder):
    """Paths of the image files in a folder and in those below it, relative to it and sorted.

    Returns:
        `(paths, hidden, others)`: image files; hidden and system entries; files of other suffixes.
    """
    folders, files, hidden = entries(folder)
    paths = [name for name in files if name.lower().endswith(SUFFIXES)]
    others = [name for name in files if not name.lower().endswith(SUFFIXES)]
    for name in folders:
        below = image_files(join(folder, name))
        for mine, theirs in zip((paths, hidden, others), below, strict=True):
            mine.extend(f"{name}/{path}" for path in theirs)
    return paths, hidden, others


def is_hidden(name):
    """Whether an entry belongs to the system and not to the data, such as `.DS_Store`."""
    return name.startswith(".") or name.lower() in _SYSTEM


def name_ignored(folder, hidden, others):
    """Says once for each folder which of its entries were taken for no images.

    Hidden entries are said on the standard error stream only; other files, which may have been
    meant to be images, are a warning.
    """
    if folder in _named:
        return
    _named.add(folder)
    if hidden:
        import sys

        print(f"{folder}: ignored the hidden entries {listed(hidden, 5)}.", file=sys.stderr)
    if others:
        counts = {}
        for name in others:
            suffix = os.path.splitext(name)[1].lower() or "no suffix"
            counts[suffix] = counts.get(suffix, 0) + 1
        kinds = ", ".join(f"{count} of {suffix}" for suffix, count in sorted(counts.items()))
        warnings.warn(
            f"{folder}: left out {len(others)} files that are not named as images ({kinds}): "
            f"{listed(others, 5)}.",
            stacklevel=4,
        )
