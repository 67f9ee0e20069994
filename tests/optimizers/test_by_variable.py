"""Accumulation, averages and learning rates by path: equal to NumPy and to one larger batch."""

import re

import keras
import numpy as np
import pytest
import small_models as small

from keras_vit.optimizers import SGD, AdamW, WarmupLinear, layerwise_factors


def linear_model():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="head")], name="model")
    rng = np.random.default_rng(0)
    for variable in model.weights:
        variable.assign(rng.normal(size=variable.shape))
    return model


def examples(count):
    rng = np.random.default_rng(1)
    return rng.normal(size=(count, 3)).astype("float32"), rng.normal(size=(count, 2))


OPTIMIZERS = {
    "adamw": lambda **kwargs: AdamW(WarmupLinear(0.1, 9, 2), weight_decay=0.5, **kwargs),
    "sgd": lambda **kwargs: SGD(WarmupLinear(0.1, 9, 2), momentum=0.9, weight_decay=0.5, **kwargs),
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_four_small_batches_are_one_of_four_times_the_size(make):
    x, y = examples(24)  # three updates
    results = []
    for steps, batch_size in ((None, 8), (4, 2)):
        model = linear_model()
        optimizer = make(
            gradient_accumulation_steps=steps,
            global_clipnorm=0.7,
            use_ema=True,
            ema_momentum=0.6,
        )
        model.compile(optimizer, "mse")
        model.fit(x, y, batch_size=batch_size, epochs=1, shuffle=False, verbose=0)
        assert int(optimizer.iterations) == 3
        # Step 3: one of the seven steps of decay is done.
        np.testing.assert_allclose(float(optimizer.learning_rate), 0.1 * 6 / 7, rtol=1e-6)
        # Keras leaves the averages in the model when training ends.
        results.append(small.values(model))
    for path, value in results[0].items():
        np.testing.assert_allclose(results[1][path], value, rtol=1e-5, atol=1e-5, err_msg=path)


def test_batches_that_do_not_fill_an_update_are_kept_for_the_next():
    x, y = examples(12)
    model = linear_model()
    before = small.values(model)
    model.compile(SGD(0.1, gradient_accumulation_steps=4), "mse", run_eagerly=True)
    model.fit(x[:6], y[:6], batch_size=2, shuffle=False, verbose=0)
    small.assert_equal(small.values(model), before)
    model.fit(x[6:8], y[6:8], batch_size=2, shuffle=False, verbose=0)
    other = linear_model()
    other.compile(SGD(0.1), "mse", run_eagerly=True)
    other.fit(x[:8], y[:8], batch_size=8, shuffle=False, verbose=0)
    for path, value in small.values(other).items():
        np.testing.assert_allclose(small.values(model)[path], value, rtol=1e-5, err_msg=path)


def test_averages_are_numpys():
    with keras.name_scope("dense"):
        kernel = keras.Variable(np.array([1.0, -2.0], "float32"), name="kernel")
    optimizer = SGD(0.1, use_ema=True, ema_momentum=0.9)
    rng = np.random.default_rng(2)
    weights, average = np.array([1.0, -2.0]), None
    for _ in range(20):
        gradient = rng.normal(size=2)
        optimizer.apply([keras.ops.convert_to_tensor(gradient, "float32")], [kernel])
        weights = weights - 0.1 * gradient
        average = weights if average is None else 0.9 * average + 0.1 * weights
    np.testing.assert_allclose(small.numpy(kernel), weights, rtol=1e-5)
    np.testing.assert_allclose(
        small.numpy(optimizer.averages()["dense/kernel"]), average, rtol=1e-5
    )
    optimizer.finalize_variable_values([kernel])
    np.testing.assert_allclose(small.numpy(kernel), average, rtol=1e-5)


@pytest.mark.parametrize(("build", "use_ema"), [(True, False), (False, True)])
def test_averages_that_there_are_not_are_refused(build, use_ema):
    optimizer = SGD(0.1, use_ema=use_ema)
    if build:
        optimizer.build([keras.Variable(np.zeros(2), name="kernel")])
    with pytest.raises(ValueError, match=f"use_ema={use_ema}, built={build}"):
        optimizer.averages()


@pytest.mark.parametrize("make", [AdamW, SGD])
def test_rates_by_path_scale_the_step_and_the_decay(make):
    variables = []
    for scope in ("low", "high"):
        with keras.name_scope(scope):
            variables.append(keras.Variable(np.array([2.0, 4.0], "float32"), name="kernel"))
    factors = {"^low/": 0.25}
    optimizer = make(0.1, weight_decay=0.5, decay="kernel", rate_factors=factors)
    optimizer.apply([keras.ops.zeros(2)] * 2, variables)
    # 1 - 0.25 * 0.1 * 0.5 and 1 - 0.1 * 0.5
    np.testing.assert_allclose(small.numpy(variables[0]), [1.975, 3.95], rtol=1e-6)
    np.testing.assert_allclose(small.numpy(variables[1]), [1.9, 3.8], rtol=1e-6)
    for variable in variables:
        variable.assign(np.zeros(2))
    optimizer.apply([keras.ops.ones(2)] * 2, variables)
    low, high = (np.array(small.numpy(variable)) for variable in variables)
    np.testing.assert_allclose(low, 0.25 * high, rtol=1e-6)
    assert (high < 0).all()


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        ({"nowhere": 0.5}, "rate_factors='nowhere', which matches none of"),
        ({"dense": 0.5, "kernel$": 0.1}, "'dense', 'kernel.'.*'dense/kernel'"),
    ],
)
def test_factors_that_match_nothing_or_twice_are_refused(factors, said):
    with keras.name_scope("dense"):
        kernel = keras.Variable(np.zeros(2), name="kernel")
    with pytest.raises(ValueError, match=said):
        AdamW(rate_factors=factors).build([kernel])


def test_layers_from_the_head_to_the_patches():
    variant = small.build(num_layers=3, position_injection="every_layer", num_registers=2)
    factors = layerwise_factors(variant.model, 0.5)
    optimizer = SGD(1.0, rate_factors=factors)
    variables = variant.model.trainable_variables
    for variable in variables:
        variable.assign(keras.ops.zeros(variable.shape))
    optimizer.apply([keras.ops.ones(v.shape) for v in variables], variables)
    moved = {v.path: -float(small.numpy(v).ravel()[0]) for v in variables}
    wanted = {
        "head": 1,
        "norm": 1,
        "block_2": 0.5,
        "position_embedding_2": 0.5,
        "block_1": 0.25,
        "position_embedding_1": 0.25,
        "block_0": 0.125,
        "patch_embedding": 0.0625,
        "class_token": 0.0625,
        "register_tokens": 0.0625,
        "position_embedding": 0.0625,
    }
    for path, rate in moved.items():
        assert rate == wanted[path.split("/")[0]], path
    assert {path.split("/")[0] for path in moved} == set(wanted)


def test_layers_that_are_frozen_have_no_factor():
    variant = small.build(num_layers=2)
    for layer in variant.model.layers:
        layer.trainable = layer.name in ("head", "block_1")
    factors = layerwise_factors(variant.model, 0.5)
    assert list(factors.values()) == [0.5]
    assert re.search(next(iter(factors)), "block_1/mlp/hidden/kernel")


@pytest.mark.parametrize("decay", [0, 1.5])
def test_a_decay_that_is_no_share_is_refused(decay):
    with pytest.raises(ValueError, match=f"decay={decay}"):
        layerwise_factors(small.build(num_layers=1).model, decay)
