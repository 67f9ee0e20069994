"""Learned positions of rows and columns."""

import numpy as np
import pytest
import reference_vit
from layer_contract import assign, call, check_layer, random_inputs, to_numpy

from keras_vit.layers import PositionEmbedding2D

B, D, S, P, GH, GW = 6, 20, 2, 1, 4, 3
N = S + P + GH * GW
ARGUMENTS = {"grid": (GH, GW), "prefix_tokens": P, "skip_tokens": S}


def expected(weights, x):
    outputs = x.copy()
    outputs[:, S + P :] += reference_vit.learned_2d_positions(weights["rows"], weights["columns"])
    if "prefix" in weights:
        outputs[:, S : S + P] += weights["prefix"]
    return outputs


def test_contract():
    check_layer(
        PositionEmbedding2D,
        ARGUMENTS,
        random_inputs(B, N, D),
        expected,
        variables={"rows": (GH, D // 2), "columns": (GW, D // 2), "prefix": (1, P, D)},
    )


def test_contract_without_prefix_tokens():
    check_layer(
        PositionEmbedding2D,
        {**ARGUMENTS, "prefix_tokens": 0},
        random_inputs(B, N - P, D),
        lambda weights, x: np.concatenate(
            [
                x[:, :S],
                x[:, S:] + reference_vit.learned_2d_positions(weights["rows"], weights["columns"]),
            ],
            axis=1,
        ),
        variables={"rows": (GH, D // 2), "columns": (GW, D // 2)},
        at_default=("prefix_tokens",),
    )


def test_the_column_fills_the_first_half_and_the_row_the_second():
    layer = PositionEmbedding2D((GH, GW))
    layer.build((None, GH * GW, 2))
    rows, columns = np.arange(GH)[:, None], 10 + np.arange(GW)[:, None]
    assign(layer, {"rows": rows, "columns": columns})
    added = call(layer, [np.zeros((1, GH * GW, 2), "float32")]).reshape(GH, GW, 2)
    for i in range(GH):
        for j in range(GW):
            assert tuple(added[i, j]) == (10 + j, i)


def test_initial_values():
    layer = PositionEmbedding2D((60, 50), prefix_tokens=40)
    layer.build((None, 40 + 60 * 50, 200))
    for variable in (layer.rows, layer.columns, layer.prefix):
        assert abs(to_numpy(variable).std() / 0.02 - 1) < 0.05
    assert not np.allclose(to_numpy(layer.rows)[:50], to_numpy(layer.columns))


def test_refuses_an_odd_width():
    with pytest.raises(ValueError, match="even.*Received: hidden_dim=21"):
        PositionEmbedding2D((GH, GW)).build((None, GH * GW, 21))


@pytest.mark.parametrize("shape", [(B, N + 1, D), (B, N - S, D), (N, D)])
def test_refuses_tokens_of_another_number(shape):
    with pytest.raises(ValueError, match=f"batch, {N}, width.*Received: shape="):
        PositionEmbedding2D(**ARGUMENTS).build(shape)


@pytest.mark.parametrize("grid", [(2, 3, 4), (0, 3), "ab", None])
def test_refuses(grid):
    with pytest.raises(ValueError, match="Received: grid="):
        PositionEmbedding2D(grid)
