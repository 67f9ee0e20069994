"""Pixels of 0..255 to the range of a checkpoint."""

import keras
import numpy as np
import pytest
from layer_contract import assert_close, call, check_layer, spread

from keras_vit.layers import PixelNormalization

B, H, W = 6, 5, 4
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def pixels():
    return np.random.default_rng(0).integers(0, 256, (B, H, W, 3))


def expected(weights, x):
    return (x / 255 - np.array(MEAN)) / np.array(STD)


def test_contract():
    check_layer(
        PixelNormalization,
        {"mean": MEAN, "std": STD},
        pixels().astype("float32"),
        expected,
    )


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32", "float16"])
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_integers_and_floats_mean_the_same(dtype, policy):
    layer = PixelNormalization(MEAN, STD, dtype=policy)
    outputs = layer(keras.ops.convert_to_tensor(pixels().astype(dtype)))
    assert keras.backend.standardize_dtype(outputs.dtype) == layer.compute_dtype
    # Integers up to 255 are exact in every one of these dtypes, so only the result is rounded.
    tolerance = 1e-6 if policy == "float32" else 2.0**-8
    assert_close(call(layer, [pixels().astype(dtype)]), expected({}, pixels()), tolerance)


def test_half_for_both_gives_minus_one_to_one():
    layer = PixelNormalization((0.5,), (0.5,))
    images = np.array([0, 127.5, 255], "float32").reshape(1, 1, 3, 1)
    np.testing.assert_allclose(call(layer, [images]).ravel(), [-1, 0, 1], atol=1e-7)


def test_pixels_between_integers_are_not_rounded_to_16_bits():
    # Near 204 bfloat16 has steps of 1, and a mean of 204 leaves only what is after the point.
    layer = PixelNormalization((0.8,), (0.01,), dtype="mixed_bfloat16")
    images = np.full((B, H, W, 3), 204.25, "float32")
    assert_close(call(layer, [images]), np.full(images.shape, 0.25 / 255 / 0.01), 1e-2)


@pytest.mark.parametrize(
    "arguments",
    [
        {"mean": MEAN, "std": (0.2, 0.0, 0.2)},
        {"mean": MEAN, "std": (0.2, -0.1, 0.2)},
        {"mean": 0.5, "std": STD},
        {"mean": MEAN, "std": None},
        {"mean": MEAN, "std": "abc"},
        {"mean": (), "std": STD},
        {"mean": MEAN, "std": (0.2, 0.2)},
    ],
)
def test_refuses(arguments):
    with pytest.raises(ValueError, match="Received: "):
        PixelNormalization(**arguments)


def test_refuses_images_of_other_channels():
    with pytest.raises(ValueError, match="Received: shape="):
        PixelNormalization(MEAN, STD)(spread((B, H, W, 4), "inputs"))
