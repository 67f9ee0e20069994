"""AdamW with a memory: what decays, by how much, and that it is Keras's AdamW otherwise."""

import contextlib
import json
import re

import keras
import numpy as np
import pytest
import small_models as small

from keras_vit.optimizers import AdamW

LEARNING_RATE, WEIGHT_DECAY = 0.1, 0.5
SHRUNK = 1 - LEARNING_RATE * WEIGHT_DECAY  # 0.95


@pytest.fixture
def variables():
    """A few of a model's variables by their paths, each with its own values."""
    paths = ["block_0/mlp/hidden/kernel", "block_0/mlp/hidden/bias", "norm/gamma"]
    paths += ["position_embedding/table", "class_token/token", "head/kernel"]
    rng = np.random.default_rng(0)
    variables = []
    for path in paths:
        *scopes, name = path.split("/")
        with contextlib.ExitStack() as stack:
            for scope in scopes:
                stack.enter_context(keras.name_scope(scope))
            values = rng.normal(size=(2, 3)).astype("float32")
            variables.append(keras.Variable(values, name=name))
    assert [variable.path for variable in variables] == paths
    return variables


def values(variables):
    return {variable.path: np.array(small.numpy(variable)) for variable in variables}


def step(optimizer, variables, gradients=None):
    """{path: (before, after)} of one step; the gradients are zero unless given."""
    before = values(variables)
    if gradients is None:
        gradients = [np.zeros(v.shape, "float32") for v in variables]
    gradients = [keras.ops.convert_to_tensor(g) for g in gradients]
    optimizer.apply(gradients, variables)
    after = values(variables)
    return {path: (before[path], after[path]) for path in before}


def decayed(changes):
    """The paths that shrank as they must; all others must be as they were, bit for bit."""
    shrunk = set()
    for path, (before, after) in changes.items():
        if (before != after).any():
            np.testing.assert_allclose(after, before * SHRUNK, rtol=1e-6, err_msg=path)
            shrunk.add(path)
    return shrunk


@pytest.mark.parametrize(
    ("decay", "paths"),
    [
        (None, {"block_0/mlp/hidden/kernel", "head/kernel"}),
        (r"head/", {"head/kernel"}),
        (["/gamma$", "token$"], {"norm/gamma", "class_token/token"}),
        ((r"^position_embedding",), {"position_embedding/table"}),
    ],
)
def test_a_step_without_gradients_shrinks_what_matches(variables, decay, paths):
    chosen = {} if decay is None else {"decay": decay}
    optimizer = AdamW(LEARNING_RATE, weight_decay=WEIGHT_DECAY, **chosen)
    assert decayed(step(optimizer, variables)) == paths


def test_every_expression_decays_everything(variables):
    optimizer = AdamW(LEARNING_RATE, weight_decay=WEIGHT_DECAY, decay="")
    assert decayed(step(optimizer, variables)) == {variable.path for variable in variables}


def test_without_weight_decay_nothing_shrinks(variables):
    assert decayed(step(AdamW(LEARNING_RATE, weight_decay=0.0), variables)) == set()


@pytest.mark.parametrize("decay", ["/kernels$", ["/kernel$", "no_such_layer"]])
def test_an_expression_that_matches_nothing_is_refused(variables, decay):
    optimizer = AdamW(decay=decay)
    with pytest.raises(ValueError, match="decay='(/kernels.|no_such_layer)'.*head/kernel"):
        optimizer.build(variables)


def test_no_kernel_need_train(variables):
    """As beside LoRA, or where biases alone are trained."""
    others = [variable for variable in variables if not variable.path.endswith("/kernel")]
    assert decayed(step(AdamW(LEARNING_RATE, weight_decay=WEIGHT_DECAY), others)) == set()


def test_exclusions_that_no_file_would_keep_are_refused():
    with pytest.raises(ValueError, match="`decay`.*var_names=.'head'."):
        AdamW().exclude_from_weight_decay(var_names=["head"])


def test_the_same_numbers_as_keras_otherwise(variables):
    rng = np.random.default_rng(1)
    start = values(variables)
    gradients = [[rng.normal(size=v.shape).astype("float32") for v in variables] for _ in range(3)]
    settings = {"beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-4, "global_clipnorm": 0.5}
    ours = AdamW(0.05, weight_decay=0.3, **settings)
    theirs = keras.optimizers.AdamW(0.05, weight_decay=0.3, **settings)
    theirs.exclude_from_weight_decay(
        var_list=[v for v in variables if not v.path.endswith("kernel")]
    )
    results = []
    for optimizer in (ours, theirs):
        for variable in variables:
            variable.assign(start[variable.path])
        for each in gradients:
            step(optimizer, variables, each)
        results.append(values(variables))
    for path, value in results[1].items():
        np.testing.assert_allclose(results[0][path], value, rtol=1e-6, err_msg=path)
    assert all((results[0][path] != start[path]).all() for path in start)


def test_one_step_by_hand():
    # A first step of Adam is the learning rate against the sign of the gradient. The decay comes
    # first and is times the learning rate: 2 - 0.1 * 0.5 * 2 - 0.1 * 1.
    with keras.name_scope("dense"):
        kernel = keras.Variable(np.array([2.0, -2.0], "float32"), name="kernel")
    optimizer = AdamW(0.1, weight_decay=0.5)
    step(optimizer, [kernel], [np.array([3.0, 0.7], "float32")])
    np.testing.assert_allclose(small.numpy(kernel), [1.8, -2.0], rtol=1e-5)


def test_the_choice_survives_the_config():
    optimizer = AdamW(0.1, weight_decay=0.5, decay=["/gamma$", "token$"], global_clipnorm=1.0)
    config = json.loads(json.dumps(keras.optimizers.serialize(optimizer)))
    again = keras.optimizers.deserialize(config)
    assert type(again) is AdamW
    assert again.decay == ("/gamma$", "token$")
    assert again.get_config() == optimizer.get_config()
    assert (again.weight_decay, again.global_clipnorm) == (0.5, 1.0)


def test_a_schedule_scales_the_decay(variables):
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([0], [0.1, 0.02])
    optimizer = AdamW(schedule, weight_decay=0.5, decay="head/kernel")
    for factor in (0.95, 0.99):
        before, after = step(optimizer, variables)["head/kernel"]
        np.testing.assert_allclose(after, before * factor, rtol=1e-6)


def test_kernels_of_a_whole_model_and_nothing_else():
    variant = small.build(num_layers=1, pooling="map", num_registers=2, layer_scale=0.1)
    optimizer = AdamW(LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    changes = step(optimizer, variant.model.trainable_variables)
    kernels = {path for path in variant.weights if re.search("/kernel$", path)}
    assert decayed(changes) == kernels
    assert len(kernels) == 1 + 6 + 6 + 1  # patches, block, map pooling, head


def test_frozen_variables_are_no_matter():
    # Fine-tuning of the head alone: the optimizer never meets the others.
    variant = small.build(num_layers=1)
    for layer in variant.model.layers:
        layer.trainable = layer.name == "head"
    optimizer = AdamW(LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    assert decayed(step(optimizer, variant.model.trainable_variables)) == {"head/kernel"}
