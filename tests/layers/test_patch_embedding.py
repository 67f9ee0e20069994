"""The patch embedding."""

import keras
import numpy as np
import pytest
import reference_vit
from layer_contract import assert_close, assign, call, check_layer, random_inputs, to_numpy

from keras_vit.layers import PatchEmbedding

# 3 x 2 patches of 5 x 4 pixels and 2 channels.
B, H, W, C = 6, 15, 8, 2
PH, PW, D = 5, 4, 21
GH, GW = 3, 2


def expected(weights, x):
    return reference_vit.patch_embedding(x, weights["kernel"], weights["bias"])


def test_contract():
    check_layer(
        PatchEmbedding,
        {"patch_size": (PH, PW), "hidden_dim": D},
        random_inputs(B, H, W, C),
        expected,
        variables={"kernel": (PH, PW, C, D), "bias": (D,)},
    )


def one_pixel_kernel(row, column, channel):
    """A kernel with one output, which is that pixel of each patch."""
    kernel = np.zeros((PH, PW, C, 1))
    kernel[row, column, channel] = 1
    return {"kernel": kernel, "bias": np.zeros(1)}


@pytest.mark.parametrize("pixel", [(0, 0, 0), (PH - 1, 0, 1), (2, PW - 1, 0)])
def test_patches_come_row_by_row_and_keep_their_pixels_in_place(pixel):
    layer, images = PatchEmbedding((PH, PW), hidden_dim=1), random_inputs(B, H, W, C)
    layer.build(images.shape)
    row, column, channel = pixel
    assign(layer, one_pixel_kernel(*pixel))
    picked = images[:, row::PH, column::PW, channel]
    assert picked.shape == (B, GH, GW)
    np.testing.assert_array_equal(call(layer, [images])[..., 0], picked.reshape(B, GH * GW))


def test_one_number_stands_for_both_sides():
    assert PatchEmbedding(4, D).patch_size == (4, 4)
    assert PatchEmbedding(4, D).compute_output_shape((None, 12, 8, C)) == (None, 6, D)


def test_images_are_channels_last_whatever_keras_is_set_to():
    images = random_inputs(B, H, W, C)
    setting = keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")
    try:
        layer = PatchEmbedding((PH, PW), D)
        outputs = call(layer, [images])
    finally:
        keras.config.set_image_data_format(setting)
    weights = {"kernel": to_numpy(layer.kernel), "bias": to_numpy(layer.bias)}
    assert_close(outputs, expected(weights, np.float64(images)), 1e-5)


def test_initial_kernel_is_a_truncated_normal_of_the_whole_patch():
    layer = PatchEmbedding((16, 12), 200)
    layer.build((None, 32, 36, 3))
    kernel, deviation = to_numpy(layer.kernel), 1 / np.sqrt(16 * 12 * 3)
    assert abs(kernel.std() / deviation - 1) < 0.01
    # Cut at two deviations of a normal that is wider, so that what remains has that deviation.
    # On PyTorch Keras lets a few in a million through.
    beyond = np.abs(kernel) > 2 * deviation / 0.87962566
    assert beyond.mean() < 1e-4
    assert np.abs(kernel[~beyond]).max() > 0.99 * 2 * deviation / 0.87962566
    np.testing.assert_array_equal(to_numpy(layer.bias), np.zeros(200))


@pytest.mark.parametrize(
    "arguments",
    [
        {"patch_size": 0, "hidden_dim": D},
        {"patch_size": (4, 4, 4), "hidden_dim": D},
        {"patch_size": (4, -4), "hidden_dim": D},
        {"patch_size": "44", "hidden_dim": D},
        {"patch_size": 4.0, "hidden_dim": D},
        {"patch_size": 4, "hidden_dim": 0},
        {"patch_size": 4, "hidden_dim": None},
    ],
)
def test_refuses(arguments):
    with pytest.raises(ValueError, match="Received: "):
        PatchEmbedding(**arguments)


@pytest.mark.parametrize(
    "shape, words",
    [
        ((B, H + 1, W, C), r"height.*Received: image_size=\(16, 8\)"),
        ((B, H, W + 2, C), r"width.*Received: image_size=\(15, 10\).* are 8 and 12"),
        ((B, 3, W, C), "nearest heights for a patch of 5 are 5"),
        ((B, None, W, C), "Received: shape="),
        ((B, H, W, None), "Received: shape="),
        ((H, W, C), "Received: shape="),
    ],
)
def test_refuses_images(shape, words):
    with pytest.raises(ValueError, match=words):
        PatchEmbedding((PH, PW), D).build(shape)
    with pytest.raises(ValueError, match=words):
        PatchEmbedding((PH, PW), D)(keras.Input(batch_shape=shape))


def test_refuses_other_images_after_it_was_built():
    layer = PatchEmbedding((PH, PW), D)
    layer.build((None, H, W, C))
    with pytest.raises(ValueError, match="Received: image_size="):
        layer(np.zeros((1, H + 1, W, C), "float32"))
