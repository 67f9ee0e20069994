"""Pooling of tokens."""

import numpy as np
import pytest
from layer_contract import call, check_layer, random_inputs

from keras_vit.layers import TokenPooling

B, N, D, P = 6, 8, 20, 2


@pytest.mark.parametrize(
    "mode, expected",
    [
        ("token", lambda weights, x: x[:, 0]),
        ("avg", lambda weights, x: x[:, P:].mean(axis=1)),
        ("max", lambda weights, x: x[:, P:].max(axis=1)),
    ],
)
def test_contract(mode, expected):
    check_layer(TokenPooling, {"mode": mode, "prefix_tokens": P}, random_inputs(B, N, D), expected)


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_prefix_tokens_do_not_count(mode):
    tokens = random_inputs(B, N, D)
    changed = tokens.copy()
    changed[:, :P] = 1e6
    layer = TokenPooling(mode, prefix_tokens=P)
    np.testing.assert_array_equal(call(layer, [tokens]), call(layer, [changed]))


def test_the_mean_of_many_tokens_in_float16():
    # 4096 tokens of 100 sum to more than float16 can hold, 65504.
    tokens = np.full((1, 4097, 8), 100.0, "float32")
    outputs = call(TokenPooling("avg", prefix_tokens=1, dtype="mixed_float16"), [tokens])
    np.testing.assert_array_equal(outputs, np.full((1, 8), 100.0))


@pytest.mark.parametrize(
    "arguments",
    [
        {"mode": "mean"},
        {"mode": None},
        {"mode": ["avg"]},
        {"mode": "avg", "prefix_tokens": -1},
        {"mode": "avg", "prefix_tokens": None},
    ],
)
def test_refuses(arguments):
    with pytest.raises(ValueError, match="Received: "):
        TokenPooling(**arguments)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("shape", [(B, P, D), (B, D), (B, 2, 3, D)])
def test_refuses_what_has_no_patches(mode, shape):
    with pytest.raises(ValueError, match="Received: shape="):
        TokenPooling(mode, prefix_tokens=P)(np.zeros(shape, "float32"))
