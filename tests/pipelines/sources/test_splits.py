"""Parts of a source: disjoint, by class, nested, and never by chance."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from tf_data import once

from pipelines.sources.arrays import arrays
from pipelines.sources.splits import fraction, hold_out

pytestmark = once

LABELS = np.repeat([0, 1, 2, 3], [40, 20, 5, 1])
IMAGES = np.zeros((len(LABELS), 2, 2, 1), "uint8")


def keys(source):
    return {source.key(i) for i in range(source.count)}


def test_a_share_of_every_class_is_held_out():
    source = arrays(IMAGES, LABELS)
    train, held = hold_out(source, 0.2)
    assert np.bincount(held.labels, minlength=4).tolist() == [8, 4, 1, 0]
    assert keys(train) | keys(held) == keys(source) and not keys(train) & keys(held)
    again = hold_out(source, 0.2)
    assert keys(again[1]) == keys(held)
    assert keys(hold_out(source, 0.2, seed=1)[1]) != keys(held)
    mixed = source.take(np.random.default_rng(0).permutation(source.count))
    assert keys(hold_out(mixed, 0.2)[1]) == keys(held)
    few = hold_out(source, 0.01)[1]  # one of each class that has more than one
    assert np.bincount(few.labels, minlength=4).tolist() == [1, 1, 1, 0]
    most = hold_out(source, 0.99)[0]
    assert np.bincount(most.labels).tolist() == [1, 1, 1, 1]


def test_a_smaller_fraction_is_part_of_a_larger_one():
    source = arrays(IMAGES, LABELS)
    parts = [fraction(source, share) for share in (0.05, 0.1, 0.5, 0.9, 1)]
    for smaller, larger in zip(parts, parts[1:], strict=False):
        assert keys(smaller) < keys(larger)
    assert np.bincount(parts[2].labels).tolist() == [20, 10, 2, 1]
    assert keys(fraction(source, 0.5, seed=3)) != keys(parts[2])


def test_images_of_the_same_classes_are_split_together():
    labels = np.repeat([[1, 0], [1, 1]], 10, axis=0).astype("float32")
    train, held = hold_out(arrays(IMAGES[:20], labels), 0.3)
    assert held.labels.sum(0).tolist() == [6, 3] and train.labels.sum(0).tolist() == [14, 7]


def test_shares_that_make_no_sense():
    source = arrays(IMAGES, LABELS)
    for share in (0, 1, -0.1, "half"):
        with pytest.raises(ValueError, match="Received: "):
            hold_out(source, share)
    for share in (0, 1.1, None):
        with pytest.raises(ValueError, match="Received: fraction="):
            fraction(source, share)
    with pytest.raises(ValueError, match="one image a class"):
        hold_out(arrays(IMAGES[:3], [0, 1, 2]), 0.5)
