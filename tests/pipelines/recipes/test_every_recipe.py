"""Every recipe, shrunk: its model, data and optimizer are built and take two updates."""

import dataclasses

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow")

from quick_compilation import quickly

from pipelines.recipes import NAMES, resolve
from pipelines.recipes.smoke import smoke, write_images
from pipelines.runs import building
from pipelines.runs.data import open_data


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("noise")
    for channels in (1, 3):
        write_images(folder / f"{channels}.npz", channels)
    return folder


def shrunk(name, images):
    recipe = resolve(name)
    return smoke(recipe, images / f"{recipe.model.channels}.npz")


def distinct():
    """One name of those that are the same once they are shrunk."""
    found = {}
    for name in NAMES:
        recipe = smoke(resolve(name), "noise.npz")
        plain = dataclasses.replace(recipe, grid={}, data=None, few_shot=False)
        found.setdefault(repr((plain, recipe.data.augment, recipe.data.crop)), name)
    return list(found.values())


@pytest.mark.parametrize("name", distinct())
def test_two_updates(name, images):
    recipe = shrunk(name, images)
    data = open_data(recipe)
    model = building.build(recipe, data.class_names)
    building.compile_model(model, recipe, 2, data.one_hot)
    given = getattr(model, "encoder", model)
    batches, validation = data.batches(given, 0)
    # Two steps are not worth a graph; on JAX they are.
    model.run_eagerly = keras.backend.backend() != "jax"
    before = [keras.ops.convert_to_numpy(v).copy() for v in model.trainable_variables]
    with quickly():
        logs = model.fit(batches, steps_per_epoch=2, verbose=0, shuffle=False).history
    assert np.isfinite(logs["loss"]).all()
    assert validation is not None
    assert int(keras.ops.convert_to_numpy(model.optimizer.iterations)) == 2
    # The first update has the rate 0, the second the recipe's whole rate.
    moved = [
        (value != keras.ops.convert_to_numpy(variable)).any()
        for value, variable in zip(before, model.trainable_variables, strict=True)
    ]
    assert any(moved)
    config = recipe.optimizer
    optimizer = model.optimizer
    assert type(optimizer).__name__.lower() == config.name
    assert optimizer.weight_decay == (config.weight_decay or (None if config.name == "sgd" else 0))
    assert optimizer.global_clipnorm == config.clip_norm
    assert optimizer.use_ema == (config.averaging is not None)
    schedule = optimizer._learning_rate
    np.testing.assert_allclose(float(schedule(1)), config.learning_rate, rtol=1e-6)
    if recipe.head_bias is not None:
        bias = before[-1] if before[-1].shape == (4,) else before[-2]
        np.testing.assert_allclose(bias, recipe.head_bias, rtol=1e-6)


def test_shrinking_keeps_what_a_recipe_is():
    recipe = smoke(resolve("better_plain_vit"), "noise.npz")
    arguments = recipe.model.arguments
    assert (arguments["pooling"], arguments["position_embedding"]) == ("avg", "sincos2d")
    assert recipe.optimizer.weight_decay == 0.1
    assert recipe.data.augment == "light2"


def test_a_hybrid_stays_one_when_it_is_shrunk():
    whole = resolve("fashion_mnist_60k")
    model = building.build(whole, [str(k) for k in range(10)])
    assert model.get_layer("position_embedding").table.shape == (1, 36, 96)  # 48 / 4 / 2 = 6
    arguments = smoke(whole, "noise.npz").model.arguments
    assert (arguments["resnet"], arguments["patch_size"]) == ((1, 1), 1)


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(precision, images):
    recipe = dataclasses.replace(shrunk("augreg_finetune", images), precision=precision)
    data = open_data(recipe)
    model = building.build(recipe, data.class_names)
    building.compile_model(model, recipe, 2, data.one_hot)
    with quickly():
        history = model.fit(data.batches(model, 0)[0], steps_per_epoch=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    scaled = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scaled == (precision == "mixed_float16")
    assert {str(v.dtype) for v in model.trainable_variables} == {"float32"}
