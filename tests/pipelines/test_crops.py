"""Crops against pixels that can be read off the picture."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from pipelines._tensorflow import tf
from pipelines.crops import random_boxes, resized_crops, whole_boxes

# A ramp: the value of a pixel is its row, plus a hundred times its column in the second channel.
ROWS, COLUMNS = 6, 9
PICTURE = np.stack(
    [
        np.broadcast_to(np.arange(ROWS)[:, None], (ROWS, COLUMNS)),
        np.broadcast_to(20 * np.arange(COLUMNS)[None], (ROWS, COLUMNS)),
    ],
    axis=-1,
).astype("uint8")


def test_a_whole_box_at_the_same_size_is_the_picture():
    pictures = np.stack([PICTURE, PICTURE[::-1]])
    crops = resized_crops(tf.constant(pictures), whole_boxes(2), (ROWS, COLUMNS))
    assert crops.dtype == "uint8"
    np.testing.assert_array_equal(crops, pictures)


def test_a_box_cuts_rows_and_columns():
    # Corners are aligned: rows 1 to 3 of 6, columns 2 to 6 of 9, at their own resolution.
    box = [[1 / 5, 2 / 8, 3 / 5, 6 / 8]]
    crops = resized_crops(tf.constant(PICTURE[None]), tf.constant(box), (3, 5))
    np.testing.assert_array_equal(crops[0], PICTURE[1:4, 2:7])


def test_a_box_with_its_right_side_at_the_left_flips():
    crops = resized_crops(
        tf.constant(PICTURE[None]), tf.constant([[0.0, 1.0, 1.0, 0.0]]), (ROWS, COLUMNS)
    )
    np.testing.assert_array_equal(crops[0], PICTURE[:, ::-1])


def test_a_larger_size_interpolates_between_pixels():
    crops = resized_crops(tf.constant(PICTURE[None]), whole_boxes(1), (ROWS, 2 * COLUMNS - 1))
    np.testing.assert_array_equal(crops[0, 0, :, 1], 10 * np.arange(2 * COLUMNS - 1))


def test_random_boxes_lie_inside_and_are_as_large_as_asked():
    top, left, bottom, right = np.asarray(random_boxes(4000, tf.constant([3, 5], "int64"), 0.6)).T
    width = np.abs(right - left)
    assert min(top.min(), left.min(), right.min()) >= 0
    assert max(bottom.max(), left.max(), right.max()) <= 1 + 1e-6
    for side in (bottom - top, width):
        assert 0.6 <= side.min() < 0.61 and 0.99 < side.max() <= 1 + 1e-6
        assert abs(side.mean() - 0.8) < 0.01
    assert abs(np.mean(right < left) - 0.5) < 0.04  # flipped
    assert abs(np.corrcoef(width, bottom - top)[0, 1]) < 0.06  # sides are drawn apart


def test_random_boxes_follow_their_seed():
    first, again, other = (
        np.asarray(random_boxes(8, tf.constant(seed, "int64"), 0.5))
        for seed in ([1, 2], [1, 2], [1, 3])
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01
