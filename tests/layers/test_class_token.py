"""The class token."""

import numpy as np
import pytest
from layer_contract import call, check_layer, random_inputs, to_numpy

from keras_vit.layers import ClassToken

B, N, D = 6, 8, 20


def with_prefix(prefix, x):
    return np.concatenate([np.broadcast_to(prefix, (len(x), *prefix.shape[1:])), x], axis=1)


def test_contract():
    check_layer(
        ClassToken,
        {},
        random_inputs(B, N, D),
        lambda weights, x: with_prefix(weights["token"], x),
        variables={"token": (1, 1, D)},
    )


def test_it_is_zero_at_first_and_stands_before_the_patches():
    layer, x = ClassToken(), random_inputs(B, N, D)
    outputs = call(layer, [x])
    np.testing.assert_array_equal(to_numpy(layer.token), np.zeros((1, 1, D)))
    np.testing.assert_array_equal(outputs[:, 0], np.zeros((B, D)))
    np.testing.assert_array_equal(outputs[:, 1:], x)


@pytest.mark.parametrize("shape", [(N, D), (2, 2, N, D)])
def test_refuses_what_is_no_sequence_of_tokens(shape):
    with pytest.raises(ValueError, match="Received: shape="):
        ClassToken()(np.zeros(shape, "float32"))
