"""Group normalisation."""

import keras
import numpy as np
import pytest
import reference_resnet
from keras import ops
from layer_contract import assert_close, assign, call, check_layer, random_inputs, to_numpy

from keras_vit.layers import GroupNorm

B, H, W, C = 4, 5, 3, 24


def test_contract():
    check_layer(
        GroupNorm,
        {"groups": 6, "epsilon": 1e-3, "gamma_initializer": "zeros"},
        random_inputs(B, H, W, C),
        lambda weights, x: reference_resnet.group_norm(x, weights, 1e-3, groups=6),
        variables={"gamma": (C,), "beta": (C,)},
    )


def expected_norm(x, epsilon, groups=6):
    weights = {"gamma": np.ones(x.shape[-1]), "beta": np.zeros(x.shape[-1])}
    return reference_resnet.group_norm(np.float64(x), weights, epsilon, groups)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-5])
def test_epsilon_shows_in_flat_images(epsilon):
    x = 1e-3 * random_inputs(B, H, W, C)
    outputs = call(GroupNorm(6, epsilon=epsilon), [x])
    assert_close(outputs, expected_norm(x, epsilon), 1e-5)
    other = expected_norm(x, 1.1e-5 - epsilon)
    assert np.abs(outputs - other).max() > 0.1 * np.abs(other).max()


@pytest.mark.parametrize(("height", "width"), [(H, W), (19, 34)])
def test_a_large_mean_does_not_drown_a_small_deviation(height, width):
    # Taken as E[x^2] - E[x]^2 in float32, this variance of 1e-4 has an error of the same size.
    x = (30 + 1e-2 * random_inputs(B, height, width, C)).astype("float32")
    assert_close(call(GroupNorm(6), [x]), expected_norm(x, 1e-6), 1e-3)


@pytest.mark.parametrize("policy", ["mixed_float16", "float16"])
def test_statistics_do_not_overflow_float16(policy):
    x = 2000 * random_inputs(B, H, W, C).astype("float16")  # its square is beyond 65504
    outputs = call(GroupNorm(6, dtype=policy), [x])
    assert_close(outputs, expected_norm(x, 1e-6), 8 * 2.0**-10)


def test_groups_are_of_neighbouring_channels():
    x = random_inputs(B, H, W, C)
    layer = GroupNorm(6)
    moved = x.copy()
    moved[..., 8:12] = 5 * random_inputs(B, H, W, 4, seed="other")  # the third of six groups
    before, after = call(layer, [x]), call(layer, [moved])
    changed = np.abs(after - before).max(axis=(0, 1, 2)) > 1e-3
    assert changed.nonzero()[0].tolist() == [8, 9, 10, 11]


def test_initial_values():
    layer = GroupNorm(6)
    layer.build((None, H, W, C))
    assert to_numpy(layer.gamma).tolist() == [1.0] * C
    assert to_numpy(layer.beta).tolist() == [0.0] * C


def test_gradient_of_a_constant_image_is_finite():
    layer = GroupNorm(6, dtype="mixed_float16")
    layer.build((None, H, W, C))
    assign(layer, {"gamma": np.full(C, 2.0), "beta": np.ones(C)})
    model = keras.Sequential([keras.Input((H, W, C)), layer])
    model.compile(keras.optimizers.SGD(0.1), loss="mse")
    images = np.full((B, H, W, C), 7.0, "float32")
    model.fit(images, np.zeros((B, H, W, C)), batch_size=B, verbose=0)
    assert all(np.isfinite(to_numpy(v)).all() for v in layer.weights)


def test_refuses_channels_that_the_groups_do_not_divide():
    with pytest.raises(ValueError, match="channels=24, groups=32"):
        GroupNorm().build((None, H, W, C))
    with pytest.raises(ValueError, match="Received: groups="):
        GroupNorm(0)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_step_of_training_beside_the_reference(frozen):
    """The gradients of the factors, with images that need a gradient and with some that do not."""
    before = keras.layers.Conv2D(C, 1, use_bias=False, trainable=not frozen)
    layer = GroupNorm(6, epsilon=1e-3)
    model = keras.Sequential([keras.Input((H, W, C)), before, layer])
    before.kernel.assign(np.eye(C)[None, None])
    model.compile(keras.optimizers.SGD(1.0), loss=lambda y, x: ops.sum(y * x) / B)
    images, weights = 20 + random_inputs(B, H, W, C), random_inputs(B, H, W, C, seed="weights")
    model.fit(images, weights, batch_size=B, verbose=0)
    normalised = reference_resnet.group_norm(
        np.float64(images), {"gamma": np.ones(C), "beta": np.zeros(C)}, 1e-3, groups=6
    )
    gradient = (weights * normalised).sum((0, 1, 2)) / B
    assert_close(to_numpy(layer.gamma), 1 - gradient, 1e-4)
    assert_close(to_numpy(layer.beta), -weights.sum((0, 1, 2)) / B, 1e-4)
