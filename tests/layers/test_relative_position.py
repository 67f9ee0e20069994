"""Relative positions: logits from the query and the offset to the key."""

import numpy as np
import pytest
import reference_vit
from layer_contract import assign, call, check_layer, random_inputs, to_numpy

from keras_vit.layers import RelativePosition

B, H, K, GH, GW, P = 6, 4, 5, 2, 3, 2  # H heads of width K
N = P + GH * GW


def expected(num_prefix):
    def logits(weights, query):
        offsets = reference_vit.relative_offsets(
            weights["table"], weights.get("prefix"), (GH, GW), num_prefix
        )
        return np.einsum("bqhd,qkd->bhqk", query, offsets)

    return logits


def test_contract():
    check_layer(
        RelativePosition,
        {"grid": (GH, GW), "prefix_tokens": P},
        random_inputs(B, N, H, K),
        expected(P),
        variables={"table": (2 * GH - 1, 2 * GW - 1, K), "prefix": (2 * P + P * P, K)},
    )


def test_contract_without_prefix_tokens():
    check_layer(
        RelativePosition,
        {"grid": (GH, GW), "prefix_tokens": 0},
        random_inputs(B, GH * GW, H, K),
        expected(0),
        variables={"table": (2 * GH - 1, 2 * GW - 1, K)},
        at_default=("prefix_tokens",),
    )


def logits_of_ones(layer, weights, num_tokens):
    """Logits of a query that is one, of one head of width one: the embeddings themselves."""
    query = np.ones((1, num_tokens, 1, 1), "float32")
    layer.build(query.shape)
    assign(layer, weights)
    return call(layer, [query])[0, 0]


def test_up_differs_from_down_and_left_from_right():
    # The embedding of an offset of r rows and c columns is the number 10 r + c.
    rows, columns = np.arange(1 - GH, GH), np.arange(1 - GW, GW)
    table = 10 * rows[:, None] + columns[None, :]
    layer = RelativePosition((GH, GW))
    logits = logits_of_ones(layer, {"table": table[..., None]}, GH * GW)
    for query in np.ndindex(GH, GW):
        for key in np.ndindex(GH, GW):
            offset = 10 * (query[0] - key[0]) + (query[1] - key[1])
            assert logits[query[0] * GW + query[1], key[0] * GW + key[1]] == offset


def test_prefix_tokens_have_an_embedding_for_each_role():
    weights = {
        "table": np.zeros((2 * GH - 1, 2 * GW - 1, 1)),
        "prefix": np.arange(2 * P + P * P)[:, None],
    }
    logits = logits_of_ones(RelativePosition((GH, GW), prefix_tokens=P), weights, N)
    patches = GH * GW
    np.testing.assert_array_equal(logits[:P, P:], [[0] * patches, [1] * patches])
    np.testing.assert_array_equal(logits[P:, :P], [[2, 3]] * patches)
    np.testing.assert_array_equal(logits[:P, :P], [[4, 5], [6, 7]])
    np.testing.assert_array_equal(logits[P:, P:], np.zeros((patches, patches)))


def test_initial_values():
    layer = RelativePosition((20, 15), prefix_tokens=9)
    layer.build((None, 309, 2, 32))
    assert abs(to_numpy(layer.table).std() / 0.02 - 1) < 0.03
    assert abs(to_numpy(layer.prefix).std() / 0.02 - 1) < 0.06


@pytest.mark.parametrize(
    "arguments",
    [
        {"grid": (2, 3, 4)},
        {"grid": (2, 0)},
        {"grid": None},
        {"grid": (2, 3), "prefix_tokens": -1},
        {"grid": (2, 3), "prefix_tokens": None},
    ],
)
def test_refuses(arguments):
    with pytest.raises(ValueError, match="Received: "):
        RelativePosition(**arguments)


@pytest.mark.parametrize("shape", [(B, N + 1, H, K), (B, N - P, H, K), (B, N, K), (B, None, H, K)])
def test_refuses_queries_of_another_number(shape):
    with pytest.raises(ValueError, match=f"batch, {N}, heads, width.*Received: shape="):
        RelativePosition((GH, GW), P).build(shape)
