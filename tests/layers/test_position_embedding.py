"""The learned table of positions."""

import numpy as np
import pytest
from layer_contract import assign, call, check_layer, random_inputs, random_weights, to_numpy

from keras_vit.layers import PositionEmbedding

# Two tokens without a position, one prefix token with one, 4 x 3 patches.
B, D, S, P, GH, GW = 6, 20, 2, 1, 4, 3
N = S + P + GH * GW
ARGUMENTS = {"grid": (GH, GW), "prefix_tokens": P, "skip_tokens": S}
TABLE = {"table": (1, P + GH * GW, D)}


def expected(weights, x):
    outputs = x.copy()
    outputs[:, S:] += weights["table"]
    return outputs


def test_contract():
    check_layer(PositionEmbedding, ARGUMENTS, random_inputs(B, N, D), expected, variables=TABLE)


@pytest.mark.parametrize("prefix, skip, rows", [(1, 0, 13), (0, 1, 12), (0, 0, 12), (3, 2, 15)])
def test_prefix_tokens_have_the_first_rows_and_skipped_ones_none(prefix, skip, rows):
    layer = PositionEmbedding((GH, GW), prefix_tokens=prefix, skip_tokens=skip)
    tokens = random_inputs(B, skip + prefix + GH * GW, D)
    layer.build(tokens.shape)
    weights = random_weights({"table": (1, rows, D)})
    assign(layer, weights)
    added = call(layer, [tokens]) - tokens
    np.testing.assert_array_equal(added[:, :skip], np.zeros((B, skip, D)))
    np.testing.assert_allclose(added[1, skip:], weights["table"][0], atol=1e-6)


def test_initial_values():
    layer = PositionEmbedding((10, 15), prefix_tokens=1)
    layer.build((None, 151, 64))
    table = to_numpy(layer.table)
    assert abs(table.std() / 0.02 - 1) < 0.03
    assert abs(table.mean()) < 1e-3
    assert np.abs(table).max() > 0.06, "a normal, not cut off at two deviations"


@pytest.mark.parametrize(
    "arguments",
    [
        {"grid": (2, 3, 4)},
        {"grid": (0, 3)},
        {"grid": None},
        {"grid": (2, 3), "prefix_tokens": -1},
        {"grid": (2, 3), "prefix_tokens": 1.0},
        {"grid": (2, 3), "skip_tokens": -1},
        {"grid": (2, 3), "skip_tokens": True},
    ],
)
def test_refuses(arguments):
    with pytest.raises(ValueError, match="Received: "):
        PositionEmbedding(**arguments)


@pytest.mark.parametrize("shape", [(B, N + 1, D), (B, N - S, D), (N, D), (B, None, D)])
def test_refuses_tokens_of_another_number(shape):
    with pytest.raises(ValueError, match=f"batch, {N}, width.*Received: shape="):
        PositionEmbedding(**ARGUMENTS).build(shape)


def test_refuses_fewer_tokens_after_it_was_built():
    layer = PositionEmbedding((GH, GW))
    layer.build((None, GH * GW, D))
    # One token would pass as a broadcast.
    with pytest.raises(ValueError, match="Received: shape="):
        layer(np.zeros((B, 1, D), "float32"))
