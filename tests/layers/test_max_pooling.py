"""Max pooling."""

import keras
import numpy as np
import pytest
import reference_resnet
from layer_contract import assert_close, call, check_layer, random_inputs, to_numpy

from keras_vit.layers import MaxPooling

B, H, W, C = 4, 9, 12, 5


def test_contract():
    check_layer(
        MaxPooling,
        {"pool_size": (5, 3), "strides": (1, 3), "padding": "symmetric"},
        random_inputs(B, H, W, C),
        lambda weights, x: reference_resnet.max_pool(x, (5, 3), (1, 3), "symmetric"),
    )


@pytest.mark.parametrize("padding", ["same", "symmetric"])
@pytest.mark.parametrize("size", [(8, 9), (9, 8), (1, 2), (13, 4)])
def test_the_border_never_wins(padding, size):
    x = -1 - np.abs(random_inputs(2, *size, C))
    outputs = call(MaxPooling(padding=padding), [x])
    assert_close(outputs, reference_resnet.max_pool(x, (3, 3), (2, 2), padding), 0)
    assert outputs.max() < -1
    with_zeros = reference_resnet.max_pool(x, (3, 3), (2, 2), padding, value=0.0)
    if padding == "symmetric":  # "same" does not pad before even sides
        assert with_zeros.max() == 0


def test_same_padding_begins_at_the_first_pixel_of_even_sizes():
    x = np.arange(8, dtype="float32").reshape(1, 1, 8, 1) + np.zeros((1, 8, 1, 1), "float32")
    same, symmetric = (
        call(MaxPooling(padding=padding), [x])[0, 0, :, 0].tolist()
        for padding in ("same", "symmetric")
    )
    assert same == [2, 4, 6, 7]
    assert symmetric == [1, 3, 5, 7]


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_gradients_pass_by_the_border(policy):
    dense = keras.layers.Dense(C, use_bias=False, kernel_initializer="identity")
    model = keras.Sequential([keras.Input((H, W, C)), dense, MaxPooling(dtype=policy)])
    model.compile(keras.optimizers.SGD(0.1), loss="mse")
    x = -1 - np.abs(random_inputs(B, H, W, C))
    model.fit(x, np.zeros(model.output_shape[1:])[None].repeat(B, 0), batch_size=B, verbose=0)
    kernel = to_numpy(dense.kernel)
    assert np.isfinite(kernel).all()
    assert np.abs(kernel - np.eye(C)).max() > 1e-4


@pytest.mark.parametrize(
    "arguments",
    [{"pool_size": 2}, {"strides": 0}, {"padding": "valid"}, {"pool_size": "3"}],
)
def test_refuses(arguments):
    with pytest.raises(ValueError, match="Received: "):
        MaxPooling(**arguments)
