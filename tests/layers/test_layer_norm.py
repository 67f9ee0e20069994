"""Layer normalisation."""

import keras
import numpy as np
import pytest
from layer_contract import assert_close, call, check_layer, random_inputs

from keras_vit.layers import LayerNorm

B, N, D = 3, 5, 12


def expected(weights, x, epsilon):
    mean = x.mean(-1, keepdims=True)
    variance = np.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * weights["gamma"] + weights["beta"]


def test_contract():
    check_layer(
        LayerNorm,
        {"epsilon": 0.5},
        random_inputs(B, N, D),
        lambda weights, x: expected(weights, x, 0.5),
        variables={"gamma": (D,), "beta": (D,)},
    )


def test_tokens_that_hardly_differ_keep_their_digits():
    x = 1000 + random_inputs(B, N, D)
    wanted = expected({"gamma": 1.0, "beta": 0.0}, np.float64(x), 1e-6)
    assert_close(call(LayerNorm(), [x]), wanted, 2e-3)  # 1000 has steps of 6e-5


@pytest.mark.parametrize("argument", ["axis", "center", "scale", "rms_scaling"])
def test_refuses_what_it_does_not_compute(argument):
    with pytest.raises(TypeError, match=argument):
        LayerNorm(**{argument: 1})


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "bfloat16"])
def test_the_numbers_of_keras_layer(dtype):
    x = random_inputs(B, N, D)
    theirs = keras.layers.LayerNormalization(epsilon=0.1, dtype=dtype)
    np.testing.assert_array_equal(call(LayerNorm(0.1, dtype=dtype), [x]), call(theirs, [x]))
