"""The perceptron of a block."""

import keras
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

from keras_vit.layers import MLP

B, N, D, M = 6, 8, 20, 11
VARIABLES = {
    "hidden/kernel": (D, M),
    "hidden/bias": (M,),
    "output/kernel": (M, D),
    "output/bias": (D,),
}


def test_contract():
    check_layer(
        MLP,
        {"mlp_dim": M, "activation": "gelu", "dropout_rate": 0.3, "seed": 5},
        random_inputs(B, N, D),
        lambda weights, x: reference_vit.mlp(x, weights, "gelu"),
        variables=VARIABLES,
        seed_generators=2,
    )


def test_the_default_activation_is_the_tanh_gelu():
    layer = MLP(M)
    x, weights = random_inputs(B, N, D), random_weights(VARIABLES)
    layer.build(x.shape)
    assign(layer, weights)
    expected = reference_vit.mlp(np.float64(x), weights, "gelu_tanh")
    exact = reference_vit.mlp(np.float64(x), weights, "gelu")
    assert np.abs(expected - exact).max() > 1e-4 * np.abs(expected).max()
    assert_close(call(layer, [x]), expected, 1e-5)


def test_any_leading_axes():
    layer = MLP(M)
    x = random_inputs(2, 3, 5, D)
    outputs = call(layer, [x])
    assert_close(outputs.reshape(2, 15, D), call(layer, [x.reshape(2, 15, D)]), 1e-5)


def test_initial_values():
    layer = MLP(300)
    layer.build((None, N, 200))
    limit = np.sqrt(6 / (200 + 300))
    for name in ("hidden", "output"):
        kernel, bias = weights_of(layer, name)
        assert 0.99 * limit < np.abs(kernel).max() <= limit
        assert abs(kernel.std() * np.sqrt(3) / limit - 1) < 0.02
        assert 0.8e-6 < bias.std() < 1.2e-6
        assert abs(bias.mean()) < 0.3e-6


def weights_of(layer, name):
    values = {v.path.removeprefix(f"{layer.name}/"): to_numpy(v) for v in layer.weights}
    return values[f"{name}/kernel"], values[f"{name}/bias"]


def test_both_dropouts_drop_their_share_and_keep_the_mean():
    rate, tokens = 0.2, (300, N, D)
    layer = MLP(M, activation="relu", dropout_rate=rate, seed=3)
    layer.build(tokens)
    # Hidden units are one; each output is their mean.
    assign(
        layer,
        {
            "hidden/kernel": np.zeros((D, M)),
            "hidden/bias": np.ones(M),
            "output/kernel": np.full((M, D), 1 / M),
            "output/bias": np.zeros(D),
        },
    )
    outputs = call(layer, [np.zeros(tokens, "float32")], training=True)
    assert abs(outputs.mean() - 1) < 0.02
    assert abs((outputs == 0).mean() - rate) < 0.02
    # What the second dropout leaves of a token tells how many hidden units the first one kept.
    kept = outputs.max(axis=-1) * (1 - rate) ** 2
    assert_close(kept * M, np.round(kept * M), 1e-5)
    assert abs(kept.mean() - (1 - rate)) < 0.02


def test_a_seed_of_its_own_where_none_is_given():
    keras.utils.set_random_seed(1)
    first = MLP(M, dropout_rate=0.5)
    assert first.seed != MLP(M, dropout_rate=0.5).seed
    keras.utils.set_random_seed(1)
    assert first.seed == MLP(M, dropout_rate=0.5).seed


@pytest.mark.parametrize(
    "arguments",
    [
        {"mlp_dim": 0},
        {"mlp_dim": 2.5},
        {"mlp_dim": M, "dropout_rate": 1},
        {"mlp_dim": M, "dropout_rate": -0.1},
        {"mlp_dim": M, "activation": "gelu_fast"},
        {"mlp_dim": M, "activation": None},
        {"mlp_dim": M, "activation": len},
    ],
)
def test_refuses(arguments):
    with pytest.raises(ValueError, match="Received: "):
        MLP(**arguments)
