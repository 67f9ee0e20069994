"""All variables at once on PyTorch: the numbers of Keras's rule for one variable after another."""

import keras
import numpy as np
import pytest
import small_models as small

from keras_vit.optimizers import SGD, AdamW

ON_TORCH = keras.backend.backend() == "torch"
pytestmark = pytest.mark.skipif(not ON_TORCH, reason="of PyTorch only")

if ON_TORCH:
    import torch


class OneByOneAdamW(AdamW):
    """Of a subclass Keras calls `update_step`."""


class OneByOneSGD(SGD):
    pass


CASES = {
    "adamw": (AdamW, OneByOneAdamW, {"weight_decay": 0.3}),
    "amsgrad": (AdamW, OneByOneAdamW, {"amsgrad": True, "beta_1": 0.5, "epsilon": 1e-3}),
    "plain": (SGD, OneByOneSGD, {}),
    "momentum": (SGD, OneByOneSGD, {"momentum": 0.9, "weight_decay": 0.2}),
    "nesterov": (SGD, OneByOneSGD, {"momentum": 0.9, "nesterov": True}),
}


def variables():
    rng = np.random.default_rng(0)
    made = []
    for scope, shape in {"low": (2, 3), "middle": (4,), "high": (3, 1, 2)}.items():
        with keras.name_scope(scope):
            made.append(keras.Variable(rng.normal(size=shape).astype("float32"), name="kernel"))
    return made


def trained(optimizer, apply=None):
    """The variables after four steps, of gradients that grow smaller, then larger."""
    chosen, rng = variables(), np.random.default_rng(1)
    optimizer.build(chosen)
    apply = apply or optimizer.apply
    for size in (1.0, 0.1, 0.01, 3.0):
        gradients = [size * rng.normal(size=v.shape).astype("float32") for v in chosen]
        apply([keras.ops.convert_to_tensor(gradient) for gradient in gradients], chosen)
    return {variable.path: small.numpy(variable) for variable in chosen}


@pytest.mark.parametrize("compiled", [False, True], ids=["each", "compiled"])
@pytest.mark.parametrize(("ours", "keras_rule", "settings"), CASES.values(), ids=CASES)
def test_the_numbers_of_the_rule_for_one(ours, keras_rule, settings, compiled):
    settings = {"global_clipnorm": 0.8, "rate_factors": {"low": 0.25, "^middle": 2.0}, **settings}
    optimizer = ours(0.1, **settings)
    # The compiler sees the lists of all variables, as an accelerator does.
    apply = torch.compile(optimizer.apply, backend="eager") if compiled else None
    results = trained(optimizer, apply)
    for path, value in trained(keras_rule(0.1, **settings)).items():
        np.testing.assert_allclose(results[path], value, rtol=1e-5, atol=1e-7, err_msg=path)


@pytest.mark.parametrize("base", [AdamW, SGD])
def test_a_subclass_with_a_rule_of_its_own_keeps_it(base):
    class Backwards(base):
        def update_step(self, gradient, variable, learning_rate):
            self.assign(variable, variable + gradient)

    kernel = variables()[0]
    before = np.array(small.numpy(kernel))
    Backwards(0.1, weight_decay=0.0).apply([keras.ops.ones(kernel.shape)], [kernel])
    np.testing.assert_allclose(small.numpy(kernel), before + 1, rtol=1e-6)


@pytest.mark.parametrize("make", [AdamW, SGD])
def test_gradients_are_left_as_they_are_and_may_be_of_another_dtype(make):
    kernel = variables()[0]
    gradient = torch.full(kernel.shape, 3.0, dtype=torch.float64)
    make(0.1, global_clipnorm=1.0).apply([gradient], [kernel])
    assert (gradient == 3).all()
    assert np.isfinite(small.numpy(kernel)).all()


@pytest.mark.parametrize("make", [AdamW, SGD])
def test_a_rate_of_zero_moves_nothing(make):
    kernel = variables()[0]
    before = np.array(small.numpy(kernel))
    optimizer = make(0.0, weight_decay=0.5)
    for gradient in (0.0, 1.0):
        optimizer.apply([keras.ops.full(kernel.shape, gradient)], [kernel])
    np.testing.assert_array_equal(small.numpy(kernel), before)


def test_a_norm_that_is_none_clips_nothing():
    kernel = variables()[0]
    before = np.array(small.numpy(kernel))
    SGD(0.5, global_clipnorm=-1.0).apply([keras.ops.ones(kernel.shape)], [kernel])  # as Keras's
    np.testing.assert_allclose(small.numpy(kernel), before - 0.5, rtol=1e-6)


def test_a_gradient_that_is_not_finite_is_not_hidden():
    first, second = variables()[:2]
    gradients = [keras.ops.full(first.shape, np.inf), keras.ops.ones(second.shape)]
    SGD(0.1, global_clipnorm=1.0).apply(gradients, [first, second])
    assert np.isnan(small.numpy(second)).all()
