"""Register tokens."""

import numpy as np
import pytest
from layer_contract import call, check_layer, random_inputs, to_numpy

from keras_vit.layers import ClassToken, RegisterTokens

B, N, D, R = 6, 8, 20, 3


def test_contract():
    check_layer(
        RegisterTokens,
        {"num_tokens": R},
        random_inputs(B, N, D),
        lambda weights, x: np.concatenate([np.repeat(weights["tokens"], B, axis=0), x], axis=1),
        variables={"tokens": (1, R, D)},
    )


def test_a_class_token_put_on_afterwards_comes_first():
    registers, x = RegisterTokens(R), random_inputs(B, N, D)
    outputs = call(ClassToken(), [registers(x)])
    np.testing.assert_array_equal(outputs[:, 0], np.zeros((B, D)))
    np.testing.assert_array_equal(outputs[0, 1 : 1 + R], to_numpy(registers.tokens)[0])
    np.testing.assert_array_equal(outputs[:, 1 + R :], x)


def test_initial_values_differ_between_registers():
    layer = RegisterTokens(50)
    layer.build((None, N, 100))
    tokens = to_numpy(layer.tokens)[0]
    assert abs(tokens.std() / 0.02 - 1) < 0.05
    assert abs(tokens.mean()) < 1e-3
    assert np.abs(np.corrcoef(tokens) - np.eye(50)).max() < 0.5


@pytest.mark.parametrize("num_tokens", [0, -1, 2.0, True, "3", None])
def test_refuses(num_tokens):
    with pytest.raises(ValueError, match="Received: num_tokens="):
        RegisterTokens(num_tokens)


@pytest.mark.parametrize("shape", [(N, D), (2, 2, N, D)])
def test_refuses_what_is_no_sequence_of_tokens(shape):
    with pytest.raises(ValueError, match="Received: shape="):
        RegisterTokens(R)(np.zeros(shape, "float32"))
