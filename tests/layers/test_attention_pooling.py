"""Pooling by attention."""

import numpy as np
import pytest
import reference_vit
from layer_contract import (
    assert_close,
    assign,
    call,
    check_layer,
    random_inputs,
    random_weights,
    to_numpy,
)

from keras_vit.layers import AttentionPooling

B, N, D, H, K, M = 6, 8, 20, 4, 5, 11
ARGUMENTS = {"num_heads": H, "mlp_dim": M, "activation": "gelu", "layer_norm_epsilon": 1e-3}
VARIABLES = {
    "probe": (1, 1, D),
    "attention/query/kernel": (D, H, K),
    "attention/query/bias": (H, K),
    "attention/key/kernel": (D, H, K),
    "attention/key/bias": (H, K),
    "attention/value/kernel": (D, H, K),
    "attention/value/bias": (H, K),
    "attention/output/kernel": (H, K, D),
    "attention/output/bias": (D,),
    "norm/gamma": (D,),
    "norm/beta": (D,),
    "mlp/hidden/kernel": (D, M),
    "mlp/hidden/bias": (M,),
    "mlp/output/kernel": (M, D),
    "mlp/output/bias": (D,),
}


def expected(weights, x, epsilon=1e-3, activation="gelu"):
    spec = {"hidden_dim": D, "layer_norm_epsilon": epsilon, "activation": activation}
    return reference_vit.map_pooling(x, spec, weights)


def weighted(layer, weights):
    layer.build((None, N, D))
    assign(layer, weights)
    return layer


def test_contract():
    check_layer(
        AttentionPooling,
        ARGUMENTS,
        random_inputs(B, N, D),
        expected,
        variables=VARIABLES,
        without_gradient=("attention/key/bias",),  # it adds the same to all logits
    )


def test_defaults_are_the_papers():
    weights, x = random_weights(VARIABLES), random_inputs(B, N, D)
    layer = weighted(AttentionPooling(H, M), weights)
    assert_close(call(layer, [x]), expected(weights, np.float64(x), 1e-6, "gelu_tanh"), 1e-5)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-12])
def test_the_epsilon_decides_where_the_variance_is_low(epsilon):
    # Values near 1e-3 leave a variance near 1e-6 before the norm.
    weights = random_weights(VARIABLES)
    weights["attention/output/bias"] *= 0
    weights["attention/output/kernel"] *= 2e-3
    x = random_inputs(B, N, D)
    layer = weighted(AttentionPooling(H, M, layer_norm_epsilon=epsilon), weights)
    right = expected(weights, np.float64(x), epsilon, "gelu_tanh")
    wrong = expected(weights, np.float64(x), 1e-5, "gelu_tanh")
    assert_close(call(layer, [x]), right, 1e-4)
    assert np.abs(wrong - right).max() > 1e-2 * np.abs(right).max()


def test_the_order_of_the_tokens_is_nothing_to_it():
    layer = weighted(AttentionPooling(H, M), random_weights(VARIABLES))
    x = random_inputs(B, N, D)
    assert_close(call(layer, [x[:, ::-1].copy()]), call(layer, [x]), 1e-5)


def test_attention_weights_are_those_of_the_probe():
    weights, x = random_weights(VARIABLES), random_inputs(B, N, D)
    layer = weighted(AttentionPooling(H, M), weights)
    probe = np.broadcast_to(weights["probe"], (B, 1, D))
    _, probabilities = reference_vit.attention(
        probe, np.float64(x), reference_vit.under(weights, "attention")
    )
    actual = to_numpy(layer.attention_weights(x))
    assert actual.shape == (B, H, 1, N)
    assert_close(actual, probabilities, 1e-5)
    np.testing.assert_allclose(actual.sum(axis=-1), 1, atol=1e-6)


def test_the_probe_starts_as_one_row_of_a_xavier_matrix():
    layer = AttentionPooling(4, M)
    layer.build((None, N, 2000))
    probe, limit = to_numpy(layer.probe), np.sqrt(6 / (1 + 2000))
    assert 0.98 * limit < np.abs(probe).max() <= limit
    assert abs(probe.std() * np.sqrt(3) / limit - 1) < 0.05


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_heads": 0, "mlp_dim": M},
        {"num_heads": H, "mlp_dim": None},
        {"num_heads": H, "mlp_dim": M, "activation": "gelu_fast"},
        {"num_heads": H, "mlp_dim": M, "layer_norm_epsilon": -1},
    ],
)
def test_refuses(arguments):
    with pytest.raises(ValueError, match="Received: "):
        AttentionPooling(**arguments)


def test_refuses_a_width_that_the_heads_do_not_divide():
    with pytest.raises(ValueError, match="Received: hidden_dim=22, num_heads=4"):
        AttentionPooling(H, M).build((None, N, 22))
