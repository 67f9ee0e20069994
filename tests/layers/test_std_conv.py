"""Convolution with standardised weights."""

import keras
import numpy as np
import pytest
import reference_resnet
from jit_on_torch import JIT_ON_TORCH
from layer_contract import assert_close, assign, call, check_layer, random_inputs, to_numpy
from reference_resnet import BIT, GOOGLE, TIMM

from keras_vit.layers import StdConv2D

B, H, W, C, F = 4, 9, 12, 5, 7
RULES = {"google": GOOGLE, "timm": TIMM, "huggingface": TIMM, "bit": BIT}


def test_contract():
    def expected(weights, x):
        kernel = reference_resnet.standardize(weights["kernel"], TIMM.weight_epsilon, root=True)
        return reference_resnet.conv(x, kernel, (2, 3), "symmetric")

    check_layer(
        StdConv2D,
        {
            "filters": F,
            "kernel_size": (3, 5),
            "strides": (2, 3),
            "padding": "symmetric",
            "standardization": "timm",
        },
        random_inputs(B, H, W, C),
        expected,
        variables={"kernel": (3, 5, C, F)},
    )


@pytest.mark.parametrize("kernel_size", [1, 3, 7])
@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("padding", ["same", "symmetric"])
def test_padding_at_odd_and_even_sizes(kernel_size, strides, padding):
    layer = StdConv2D(F, kernel_size, strides, padding, standardization=None)
    kernel = random_inputs(kernel_size, kernel_size, C, F, seed="kernel")
    layer.build((None, 8, 8, C))
    assign(layer, {"kernel": kernel})
    for height, width in [(8, 9), (9, 8), (2, 1), (13, 4)]:
        x = random_inputs(2, height, width, C)
        expected = reference_resnet.conv(
            np.float64(x), np.float64(kernel), (strides, strides), padding
        )
        outputs = call(layer, [x])
        assert outputs.shape == layer.compute_output_shape(x.shape)
        assert_close(outputs, expected, 1e-5)


def test_same_padding_of_the_paper_is_asymmetric_on_even_sizes():
    # A filter that picks the middle: which pixel it sits on tells where the window began.
    middle = np.zeros((7, 7, 1, 1), "float32")
    middle[3, 3] = 1
    image = np.arange(8, dtype="float32").reshape(1, 1, 8, 1) + np.zeros((1, 8, 1, 1), "float32")
    columns = {}
    for padding in ("same", "symmetric"):
        layer = StdConv2D(1, 7, strides=2, padding=padding, standardization=None)
        layer.build(image.shape)
        assign(layer, {"kernel": middle})
        columns[padding] = call(layer, [image])[0, 0, :, 0].tolist()
    assert columns == {"same": [1, 3, 5, 7], "symmetric": [0, 2, 4, 6]}


@JIT_ON_TORCH
@pytest.mark.skipif(keras.backend.backend() != "torch", reason="others compile for each size")
def test_sizes_that_the_compiler_leaves_open():
    import torch

    layer = StdConv2D(F, 3, strides=2)
    layer.build((None, H, W, C))
    images = keras.ops.convert_to_tensor(random_inputs(B, H, W, C))
    wanted = to_numpy(layer(images))
    compiled = torch.compile(lambda images: layer(images), dynamic=True)
    assert_close(to_numpy(compiled(images)), wanted, 1e-5)


@pytest.mark.parametrize("standardization", RULES)
@pytest.mark.parametrize("deviation", [1e-1, 1e-3, 1e-4])
def test_epsilon_and_its_place_show_where_weights_hardly_spread(standardization, deviation):
    rules = RULES[standardization]
    kernel = deviation * random_inputs(3, 3, C, F, seed="kernel") / 0.2
    x = random_inputs(B, H, W, C)
    outputs = {}
    for name in {standardization, "google", "timm", "bit"}:
        layer = StdConv2D(F, 3, standardization=name)
        layer.build(x.shape)
        assign(layer, {"kernel": kernel})
        outputs[name] = call(layer, [x])
    exact = reference_resnet.standardize(np.float64(kernel), rules.weight_epsilon, rules.root)
    expected = reference_resnet.conv(np.float64(x), exact)
    assert_close(outputs[standardization], expected, 1e-5)
    if deviation == 1e-4:
        largest = np.abs(expected).max()
        for name in {"google", "timm", "bit"} - {standardization}:
            if RULES[name] != rules:
                assert np.abs(outputs[name] - expected).max() > 0.01 * largest


@pytest.mark.parametrize("standardization", RULES)
@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_constant_filters_and_images_give_finite_numbers_and_gradients(standardization, policy):
    layer = StdConv2D(F, 3, standardization=standardization, dtype=policy)
    layer.build((None, H, W, C))
    assign(layer, {"kernel": np.full((3, 3, C, F), 0.25)})
    model = keras.Sequential([keras.Input((H, W, C)), layer])
    images = np.full((B, H, W, C), 0.5, "float32")
    assert np.isfinite(model.predict(images, verbose=0)).all()
    model.compile(keras.optimizers.SGD(1e-3), loss="mse")
    model.fit(images, np.ones((B, H, W, F)), batch_size=B, verbose=0)
    assert np.isfinite(to_numpy(layer.kernel)).all()


def test_statistics_are_taken_of_all_digits_of_the_kernel():
    # In bfloat16 these weights are all 1, and their deviation is gone.
    kernel = 1 + 1e-3 * random_inputs(3, 3, C, F, seed="kernel")
    x = random_inputs(B, H, W, C)
    layer = StdConv2D(F, 3, standardization="bit", dtype="mixed_bfloat16")
    layer.build(x.shape)
    assign(layer, {"kernel": kernel})
    exact = reference_resnet.standardize(np.float64(kernel), 1e-10, root=True)
    assert_close(call(layer, [x]), reference_resnet.conv(np.float64(x), exact), 0.02)


def test_a_factor_or_a_shift_of_the_filters_changes_nothing():
    kernel = random_inputs(3, 3, C, F, seed="kernel")
    x = random_inputs(B, H, W, C)
    outputs = []
    for factor, shift in [(1, 0), (4, 0), (1, 0.5)]:
        layer = StdConv2D(F, 3)
        layer.build(x.shape)
        assign(layer, {"kernel": factor * kernel + shift})
        outputs.append(call(layer, [x]))
    assert_close(outputs[1], outputs[0], 1e-4)
    assert_close(outputs[2], outputs[0], 1e-4)


def test_initial_values():
    layer = StdConv2D(400, 3)
    layer.build((None, H, W, 30))
    kernel = to_numpy(layer.kernel)
    assert abs(kernel.std() * np.sqrt(9 * 30) - 1) < 0.02  # lecun normal
    # Truncated, but for the few that PyTorch's generator lets through after four draws.
    assert np.quantile(abs(kernel), 0.9999) < 2 * 1.14 / np.sqrt(9 * 30)


@pytest.mark.parametrize(
    "arguments",
    [
        {"filters": 0, "kernel_size": 3},
        {"filters": F, "kernel_size": 2},
        {"filters": F, "kernel_size": (3, 4)},
        {"filters": F, "kernel_size": 3, "strides": 0},
        {"filters": F, "kernel_size": 3, "padding": "valid"},
        {"filters": F, "kernel_size": 3, "standardization": "keras"},
    ],
)
def test_refuses(arguments):
    with pytest.raises(ValueError, match="Received: "):
        StdConv2D(**arguments)


@pytest.mark.parametrize("shape", [(None, None, W, C), (None, H, W), (None, H, W, None)])
def test_refuses_images_of_unknown_shape(shape):
    with pytest.raises(ValueError, match="Received: shape="):
        StdConv2D(F, 3).build(shape)
