"""Crops against pixels that can be read off the picture."""

import types

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from PIL import Image
from tf_data import once

from keras_vit.models.preprocessing import Preprocessing
from pipelines._tensorflow import tf
from pipelines.images.crops import evaluation_view, random_boxes, resized_crops, whole_boxes

pytestmark = once

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


# --- The view that models are evaluated on ------------------------------------------------------


def view(image, image_size, **facts):
    spec = types.SimpleNamespace(image_size=image_size, preprocessing=Preprocessing(**facts))
    result = evaluation_view(image, spec)
    assert result.dtype == "uint8" and result.shape[-3:-1] == image_size
    return np.asarray(result)


NOISE = np.random.default_rng(0).integers(0, 256, (40, 61, 3), "uint8")


def test_a_squashed_view_has_all_of_the_image():
    np.testing.assert_array_equal(view(PICTURE, (ROWS, COLUMNS)), PICTURE)
    halves = view(np.kron(PICTURE, np.ones((2, 3, 1))).astype("uint8"), (ROWS, COLUMNS))
    np.testing.assert_array_equal(halves, PICTURE)
    np.testing.assert_array_equal(view(PICTURE[::2], (3, 9))[:, 4, 0], [0, 2, 4])


def test_a_central_view_keeps_the_shape_and_cuts_the_longer_side():
    # 6 x 9 to cover 3 x 3: at half size columns would be 0 to 4, of which the middle ones stay.
    wide = np.kron(PICTURE, np.ones((2, 2, 1))).astype("uint8")  # 12 x 18
    np.testing.assert_array_equal(view(wide, (6, 6), crop_mode="center"), PICTURE[:, 1:7])
    high = wide.transpose(1, 0, 2)
    np.testing.assert_array_equal(
        view(high, (6, 6), crop_mode="center"), PICTURE.transpose(1, 0, 2)[1:7]
    )
    np.testing.assert_array_equal(view(wide, (6, 9), crop_mode="center"), PICTURE)


def test_a_fraction_that_is_a_quotient_gives_back_its_divisor():
    # 212 / (212 / 238) is a little less than 238. Nothing is resized, so the centre is exact.
    image = np.random.default_rng(1).integers(0, 256, (238, 238, 3), "uint8")
    centre = view(image, (212, 212), crop_mode="center", crop_fraction=212 / 238)
    np.testing.assert_array_equal(centre, image[13:225, 13:225])


def test_a_fraction_is_cut_after_the_resize():
    # The model's 3 x 6 is three quarters of 4 x 8, to which the image is resized first.
    image = NOISE[:4, :8]
    for mode in ("squash", "center"):
        expected = image[0:3, 1:7]
        np.testing.assert_array_equal(
            view(image, (3, 6), crop_fraction=0.75, crop_mode=mode), expected
        )


@pytest.mark.parametrize("method, resample", [("bilinear", 2), ("bicubic", 3)])
def test_antialiased_views_are_pillows(method, resample):
    image = NOISE // 2 + 64  # Pillow cuts overshoots to a byte between rows and columns
    for size in [(16, 24), (80, 100)]:
        facts = {"resize_method": method, "antialias": True}
        expected = Image.fromarray(image).resize(size[::-1], resample)
        difference = np.abs(view(image, size, **facts) - np.asarray(expected, float))
        assert difference.max() <= 1


def test_a_batch_of_images_has_the_views_of_each():
    facts = {"crop_fraction": 0.8, "crop_mode": "center"}
    both = view(np.stack([NOISE, NOISE[::-1]]), (16, 20), **facts)
    for image, expected in zip(both, (NOISE, NOISE[::-1]), strict=True):
        np.testing.assert_array_equal(image, view(image=expected, image_size=(16, 20), **facts))
