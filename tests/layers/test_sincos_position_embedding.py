"""Fixed positions of sines and cosines."""

import numpy as np
import pytest
import reference_vit
from layer_contract import call, check_layer, random_inputs

from keras_vit.layers import SinCosPositionEmbedding

B, D, S, P, GH, GW = 6, 20, 2, 1, 4, 3
N = S + P + GH * GW
ARGUMENTS = {"grid": (GH, GW), "prefix_tokens": P, "skip_tokens": S}


def expected(weights, x):
    outputs = x.copy()
    outputs[:, S + P :] += reference_vit.sincos2d_positions((GH, GW), D)
    return outputs


def test_contract():
    check_layer(SinCosPositionEmbedding, ARGUMENTS, random_inputs(B, N, D), expected)


def test_by_hand():
    # Width 8 has the frequencies 1 and 1/10000; the patch is in row 2 and column 1 of 3 x 2.
    layer = SinCosPositionEmbedding((3, 2), prefix_tokens=1)
    added = call(layer, [np.zeros((1, 7, 8), "float32")])[0]
    x, y = np.array([1, 1e-4]), np.array([2, 2e-4])
    patch = np.concatenate([np.sin(x), np.cos(x), np.sin(y), np.cos(y)])
    np.testing.assert_allclose(added[1 + 2 * 2 + 1], patch, atol=1e-7)
    np.testing.assert_array_equal(added[0], np.zeros(8))
    np.testing.assert_allclose(added[1], [0, 0, 1, 1, 0, 0, 1, 1], atol=1e-7)


def test_large_grids_keep_their_digits():
    layer = SinCosPositionEmbedding((1, 4000))
    added = call(layer, [np.zeros((1, 4000, 8), "float32")])[0]
    np.testing.assert_allclose(added[:, 0], np.sin(np.arange(4000.0)), atol=1e-7)


@pytest.mark.parametrize("width", [4, 10, 21])
def test_refuses_widths(width):
    with pytest.raises(ValueError, match=f"multiple of 4.*Received: hidden_dim={width}"):
        SinCosPositionEmbedding((GH, GW)).build((None, GH * GW, width))


@pytest.mark.parametrize("shape", [(B, N + 1, D), (B, N - S, D), (N, D)])
def test_refuses_tokens_of_another_number(shape):
    with pytest.raises(ValueError, match=f"batch, {N}, width.*Received: shape="):
        SinCosPositionEmbedding(**ARGUMENTS).build(shape)


@pytest.mark.parametrize("grid", [(2, 3, 4), (0, 3), "ab", None])
def test_refuses(grid):
    with pytest.raises(ValueError, match="Received: grid="):
        SinCosPositionEmbedding(grid)
