"""Parts of a source: a share held out for validation, and fractions for studies of data size.

Which part an image falls into follows from its own name and a seed, class by class: the same on
every host and in every run, whatever the order of the images, and the seed of training has no say.
A stream is read once for it, whole and without decoding, since its labels are in its records; its
parts are those that it would have in memory.
"""

import hashlib

import numpy as np

from keras_vit.layers import checks


def hold_out(source, share, seed=0):
    """Splits a source in two, class by class.

    Args:
        source: A `Source` or `RecordStream`.
        share: Float between 0 and 1: of each class, rounded; at least one image of a class that has
            more than one, and never all.
        seed: Integer; another seed gives another split.

    Returns:
        Two of its kind that share no image: what is left, and what was held out.

    Raises:
        ValueError: if `share` is not between 0 and 1, or a part is empty.
    """
    if checks.number(share, "share") <= 0 or share >= 1:
        raise ValueError(f"The share to hold out must be above 0 and below 1. Received: {share!r}")
    held = np.zeros(source.count, bool)
    for members in _by_class(source, f"hold out {seed}"):
        number = min(max(round(len(members) * share), 1), len(members) - 1)
        held[members[:number]] = True
    if not held.any():
        raise ValueError(
            f"{source.name} has one image a class: nothing can be held out. "
            "Pass `validation=False`, or another source."
        )
    return source.take(np.flatnonzero(~held)), source.take(np.flatnonzero(held))


def fraction(source, share, seed=0):
    """A share of every class of a source; a smaller share is part of a larger one.

    Args:
        source: A `Source` or `RecordStream`.
        share: Float above 0 and up to 1; of each class at least one image is kept.
        seed: Integer; another seed gives other images.

    Returns:
        One of its kind.

    Raises:
        ValueError: if `share` is not above 0 and up to 1.
    """
    if not 0 < checks.number(share, "fraction") <= 1:
        raise ValueError(f"`fraction` must be above 0 and up to 1. Received: fraction={share!r}")
    if share == 1:
        return source
    parts = [
        members[: max(round(len(members) * share), 1)]
        for members in _by_class(source, f"fraction {seed}")
    ]
    return source.take(np.sort(np.concatenate(parts)))


def _by_class(source, salt):
    """For each class the numbers of its images, in an order that follows from their names."""
    keys, groups = _keys(source.count, source.key, salt), source.groups
    order = np.lexsort((keys, groups))
    borders = np.flatnonzero(np.diff(groups[order])) + 1
    return np.split(order, borders)


def _keys(count, name_of, salt):
    """A number for each image that looks random, uint64."""

    def key(name):
        digest = hashlib.blake2b(f"{salt}/{name}".encode(), digest_size=8)
        return int.from_bytes(digest.digest(), "big")

    return np.array([key(name_of(i)) for i in range(count)], "uint64")
