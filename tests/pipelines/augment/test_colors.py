"""Colour operations against Pillow, whose names they have, and against plain NumPy."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("PIL")

from augment_pictures import noise, ramps
from PIL import Image, ImageEnhance, ImageOps

from pipelines._tensorflow import tf
from pipelines.augment import colors

PICTURES = {
    "noise": noise(),
    "ramps": ramps(),
    "dark": noise(low=17, high=90),
    "one value": np.full((6, 9, 3), 77, "uint8"),
    "two values": np.repeat(noise(channels=1, height=12, width=7, high=2) * 200, 3, axis=-1),
}
pictures = pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)


def run(operation, picture, *arguments):
    result = operation(tf.constant(picture), *arguments)
    assert result.dtype == "uint8" and result.shape == picture.shape
    return result.numpy()


def largest_difference(left, right):
    return np.abs(left.astype(int) - np.asarray(right).astype(int)).max()


@pictures
def test_auto_contrast_is_pillows(picture):
    ours = run(colors.auto_contrast, picture)
    # Pillow stretches in double precision: a value just at a whole number may fall below it.
    assert largest_difference(ours, ImageOps.autocontrast(Image.fromarray(picture))) <= 1
    for channel in range(3):
        if len(np.unique(picture[..., channel])) > 1:
            assert (ours[..., channel].min(), ours[..., channel].max()) == (0, 255)


@pictures
def test_equalize_is_pillows(picture):
    expected = np.asarray(ImageOps.equalize(Image.fromarray(picture)))
    np.testing.assert_array_equal(run(colors.equalize, picture), expected)


@pictures
def test_invert_is_pillows(picture):
    expected = np.asarray(ImageOps.invert(Image.fromarray(picture)))
    np.testing.assert_array_equal(run(colors.invert, picture), expected)


@pytest.mark.parametrize("bits", [1, 3, 6, 8])
def test_posterize_is_pillows(bits):
    expected = np.asarray(ImageOps.posterize(Image.fromarray(noise()), bits))
    np.testing.assert_array_equal(run(colors.posterize, noise(), bits), expected)


def test_posterize_keeps_one_bit_at_least_and_eight_at_most():
    np.testing.assert_array_equal(run(colors.posterize, noise(), 0), noise() // 128 * 128)
    np.testing.assert_array_equal(run(colors.posterize, noise(), 10), noise())


@pytest.mark.parametrize("threshold", [0, 1, 100, 255, 256, 384])
def test_solarize_is_pillows(threshold):
    expected = np.asarray(ImageOps.solarize(Image.fromarray(noise()), threshold))
    np.testing.assert_array_equal(run(colors.solarize, noise(), threshold), expected)


@pytest.mark.parametrize("addition", [0, 55, 110, 220])
def test_solarize_add_brightens_what_is_below_128(addition):
    pixels = noise().astype(int)
    expected = np.where(pixels < 128, np.minimum(pixels + addition, 255), pixels)
    np.testing.assert_array_equal(run(colors.solarize_add, noise(), addition), expected)


ENHANCERS = {
    "color": ImageEnhance.Color,
    "contrast": ImageEnhance.Contrast,
    "brightness": ImageEnhance.Brightness,
    "sharpness": ImageEnhance.Sharpness,
}


@pytest.mark.parametrize("factor", [0.0, 0.1, 1.0, 1.9, 3.7])
@pytest.mark.parametrize("name", ENHANCERS)
@pictures
def test_enhancing_is_pillows(picture, name, factor):
    ours = run(getattr(colors, name), picture, factor)
    expected = ENHANCERS[name](Image.fromarray(picture)).enhance(factor)
    # Pillow rounds what it blurs, and ours cuts it off; then factors above 1 enlarge that.
    slack = 1 + (abs(factor - 1) if name == "sharpness" else 0)
    assert largest_difference(ours, expected) <= slack
    if factor == 1:
        np.testing.assert_array_equal(ours, picture)


def test_sharpness_at_0_blurs_with_the_weights_1_and_5_and_leaves_the_border():
    picture = np.zeros((5, 6, 1), "uint8")
    picture[2, 3] = 130
    blurred = run(colors.sharpness, picture, 0.0)[..., 0]
    expected = np.zeros((5, 6), "uint8")
    expected[1:4, 2:5] = 10
    expected[2, 3] = 50
    np.testing.assert_array_equal(blurred, expected)
    border = noise(height=2, width=7)
    np.testing.assert_array_equal(run(colors.sharpness, border, 0.0), border)


def test_one_channel_is_grey_already():
    picture = noise(channels=1)
    np.testing.assert_array_equal(run(colors.color, picture, 0.1), picture)
    np.testing.assert_array_equal(
        run(colors.equalize, picture)[..., 0], ImageOps.equalize(Image.fromarray(picture[..., 0]))
    )
