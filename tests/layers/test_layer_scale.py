"""Layer scale."""

import numpy as np
import pytest
from layer_contract import call, check_layer, random_inputs, to_numpy

from keras_vit.layers import LayerScale

B, N, D = 6, 8, 20


def test_contract():
    check_layer(
        LayerScale,
        {"initial_value": 0.1},
        random_inputs(B, N, D),
        lambda weights, x: x * weights["gamma"],
        variables={"gamma": (D,)},
    )


@pytest.mark.parametrize("initial_value", [1e-5, 1.0, 0])
def test_every_channel_starts_from_the_initial_value(initial_value):
    layer = LayerScale(initial_value)
    x = random_inputs(B, N, D)
    np.testing.assert_allclose(call(layer, [x]), initial_value * x, rtol=1e-6)
    np.testing.assert_array_equal(to_numpy(layer.gamma), np.full(D, initial_value, "float32"))


@pytest.mark.parametrize("initial_value", [None, "small", True, [0.1, 0.2]])
def test_refuses(initial_value):
    with pytest.raises(ValueError, match="Received: initial_value="):
        LayerScale(initial_value)
