"""Rectangles that are overwritten: where, how large, how often."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from augment_pictures import noise

from pipelines._tensorflow import tf
from pipelines.augment.patches import cutout, random_erasing


def over_seeds(function, count):
    """What a function of a seed gives for many, in one graph."""
    seeds = tf.stack([tf.range(count), tf.fill((count,), 11)], 1)
    return tf.data.Dataset.from_tensor_slices(seeds).map(function).batch(count).get_single_element()


def spans(mask):
    """Sides of the masked rectangles `(n, 2)`, after checking that they are rectangles."""
    rows, columns = mask.any(2), mask.any(1)
    assert (mask == (rows[:, :, None] & columns[:, None, :])).all()
    for line in (rows, columns):  # without a gap
        assert (np.abs(np.diff(np.pad(line, ((0, 0), (1, 1))).astype(int))).sum(1) <= 2).all()
    return np.stack([rows.sum(1), columns.sum(1)], 1)


def test_cutout_is_a_grey_square_that_may_hang_over_the_border():
    white = tf.fill((30, 50, 3), tf.constant(255, "uint8"))
    results = over_seeds(lambda seed: cutout(white, 6, seed), 2000).numpy()
    assert set(np.unique(results)) == {128, 255}
    sides = spans((results == 128).all(-1))
    # Whole inside; at the first row or column half of it is left, at the last one more pixel.
    assert sides.max() == 12 and sides.min() == 6
    for axis, length in enumerate((30, 50)):
        inside = (length - 11) / length  # middles from 6 to length - 6
        share = (sides[:, axis] == 12).mean()
        assert abs(share - inside) < 4 * np.sqrt(inside * (1 - inside) / 2000)
    # Every pixel is the middle equally often: the first row is hit by the middles 0 to 6.
    first = (results[:, 0] == 128).any((1, 2)).mean()
    assert abs(first - 7 / 30) < 4 * np.sqrt(7 / 30 * 23 / 30 / 2000)


def test_cutout_of_nothing_is_the_picture():
    np.testing.assert_array_equal(cutout(tf.constant(noise()), 0, (1, 2)), noise())


def test_erasing_happens_with_its_probability_and_bounds():
    # One value that noise hits once in 256 pixels per channel: any of 3 channels tells.
    picture = tf.fill((60, 90, 3), tf.constant(7, "uint8"))
    results = over_seeds(lambda seed: random_erasing(picture, seed, 0.25), 2000).numpy()
    changed = (results != 7).any(-1)
    erased = changed.any((1, 2))
    assert abs(erased.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 2000)
    rows, columns = changed[erased].any(2).sum(1), changed[erased].any(1).sum(1)
    area = rows * columns / (60 * 90)
    assert 0.015 < area.min() < 0.04 and 0.28 < area.max() < 0.35
    aspect = rows / columns
    assert 0.27 < aspect.min() < 0.4 and 2.5 < aspect.max() < 3.7
    assert abs((aspect > 1).mean() - 0.5) < 0.12
    values = results[changed]
    assert abs(values.mean() - 127.5) < 1 and values.min() == 0 and values.max() == 255


def test_erasing_never_and_always():
    picture = tf.constant(noise())
    np.testing.assert_array_equal(random_erasing(picture, tf.constant([1, 2]), 0.0), noise())
    assert (random_erasing(picture, tf.constant([1, 2]), 1.0).numpy() != noise()).any()
