"""SGD whose momentum does not know the rate, against NumPy, and its decay of kernels."""

import json

import keras
import numpy as np
import pytest
import small_models as small

from keras_vit.optimizers import SGD

RATES = [0.1, 0.02, 0.5, 0.03]


def variable(name, values):
    with keras.name_scope("dense"):
        return keras.Variable(np.array(values, "float32"), name=name)


def changing_rate():
    return keras.optimizers.schedules.PiecewiseConstantDecay([0, 1, 2], RATES)


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_under_a_changing_rate(nesterov):
    kernel = variable("kernel", [1.0, -2.0])
    optimizer = SGD(changing_rate(), momentum=0.9, nesterov=nesterov)
    rng = np.random.default_rng(0)
    wanted, velocity = np.array([1.0, -2.0]), np.zeros(2)
    for rate in RATES:
        gradient = rng.normal(size=2)
        optimizer.apply([keras.ops.convert_to_tensor(gradient, "float32")], [kernel])
        velocity = 0.9 * velocity + gradient
        wanted = wanted - rate * (gradient + 0.9 * velocity if nesterov else velocity)
    np.testing.assert_allclose(small.numpy(kernel), wanted, rtol=1e-5)


def test_a_constant_rate_is_keras_own_rule():
    rng = np.random.default_rng(1)
    gradients = [rng.normal(size=3).astype("float32") for _ in range(4)]
    results = []
    for optimizer in (SGD(0.1, momentum=0.9), keras.optimizers.SGD(0.1, momentum=0.9)):
        kernel = variable("kernel", [1.0, 2.0, 3.0])
        for gradient in gradients:
            optimizer.apply([keras.ops.convert_to_tensor(gradient)], [kernel])
        results.append(np.array(small.numpy(kernel)))
    np.testing.assert_allclose(*results, rtol=1e-5)


def test_without_momentum_by_hand():
    kernel = variable("kernel", [1.0, 2.0])
    optimizer = SGD(0.5)
    optimizer.apply([keras.ops.convert_to_tensor([1.0, -3.0])], [kernel])
    np.testing.assert_allclose(small.numpy(kernel), [0.5, 3.5], rtol=1e-6)


def test_decay_is_of_kernels_only():
    variables = [variable("kernel", [2.0]), variable("bias", [2.0])]
    optimizer = SGD(0.1, momentum=0.9, weight_decay=0.5)
    optimizer.apply([keras.ops.zeros(1), keras.ops.zeros(1)], variables)
    np.testing.assert_allclose([small.numpy(v)[0] for v in variables], [1.9, 2.0], rtol=1e-6)


def test_the_config_makes_the_same_optimizer():
    optimizer = SGD(
        0.3, momentum=0.8, weight_decay=0.1, decay=["a$"], rate_factors={"b": 0.5}, nesterov=True
    )
    config = json.loads(json.dumps(keras.optimizers.serialize(optimizer)))
    again = keras.optimizers.deserialize(config)
    assert type(again) is SGD
    assert again.get_config() == optimizer.get_config()
    assert again.rate_factors == {"b": 0.5}
    assert (again.momentum, again.nesterov, again.decay) == (0.8, True, ("a$",))
