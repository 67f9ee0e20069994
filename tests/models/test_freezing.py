"""What is frozen stays, whatever was trained before; a linear probe sees features of inference."""

import pathlib
import re

import keras
import numpy as np
import pytest
import small_models as small
from small_resnets import bit

import keras_vit
from keras_vit.models.spec import RATES

LABELS = np.array([1, 0])


def fit(variant, model=None):
    """One step; the layers that moved."""
    model = model or variant.model
    before = small.values(model)
    model.fit(variant.images, LABELS, verbose=0, shuffle=False)
    after = small.values(model)
    return {path.split("/")[0] for path in before if (before[path] != after[path]).any()}


def compiled(model):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras_vit.optimizers.SGD(0.1, weight_decay=0.1), loss, run_eagerly=True)
    return model


def test_layers_frozen_after_a_fit_stay_and_thaw():
    variant = small.build(num_layers=2)
    compiled(variant.model)
    everything = fit(variant)
    assert {"patch_embedding", "class_token", "block_0", "block_1", "norm", "head"} <= everything
    assert keras_vit.freeze(variant.model) is variant.model
    assert fit(variant) == {"head"}
    keras_vit.freeze(variant.model, keep=["^head$", r"^block_1$"])
    assert fit(variant) == {"head", "block_1"}
    assert variant.model.optimizer.weight_decay == 0.1  # as compiled
    keras_vit.freeze(variant.model, keep="")
    assert fit(variant) == everything


def test_an_expression_that_matches_no_layer_is_refused():
    model = small.build(num_layers=1).model
    with pytest.raises(ValueError, match="keep='block_7'.*block_0"):
        keras_vit.freeze(model, keep=["head", "block_7"])
    assert all(layer.trainable for layer in model.layers)


def test_a_linear_probe_trains_the_head_on_features_of_inference():
    rates = dict.fromkeys(RATES, 0.5)
    variant = small.build(num_layers=2, **rates)
    probe = keras_vit.linear_probe(variant.model)
    assert not probe.compiled
    small.assert_equal(small.values(probe), small.values(variant.model))
    wanted = small.expected_output(variant)
    np.testing.assert_allclose(
        small.numpy(probe(variant.images, training=True)), wanted, atol=2e-5 * np.abs(wanted).max()
    )
    assert fit(variant, compiled(probe)) == {"head"}
    assert all(layer.trainable for layer in variant.model.layers)


def test_training_a_probe_leaves_its_model_as_it_was():
    variant = small.build(num_layers=1)
    probe = keras_vit.linear_probe(variant.model)
    probe.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    before = small.values(variant.model)
    assert fit(variant, probe) == {"head"}
    small.assert_equal(small.values(variant.model), before)


def test_a_linear_probe_of_a_resnet():
    model, _ = bit()
    probe = keras_vit.linear_probe(model)
    assert {v.path for v in probe.trainable_variables} == {"head/kernel", "head/bias"}


@pytest.mark.parametrize("fields", [{"include_top": False}, {"representation_size": 8}])
def test_a_probe_without_a_linear_head_is_refused(fields):
    with pytest.raises(ValueError, match="include_top=.*representation_size="):
        keras_vit.linear_probe(small.build(num_layers=1, **fields).model)


def test_lora_trains_its_factors_and_the_head_alone():
    variant = small.build(num_layers=1)
    keras_vit.freeze(variant.model)
    block = variant.model.get_layer("block_0")
    block.trainable = True
    for part in (block.attention_norm, block.mlp_norm, block.mlp):
        part.trainable = False
    attention = block.attention
    for part in (attention.query, attention.key, attention.value, attention.output_projection):
        part.enable_lora(2)
        part.bias.trainable = False
    before = small.values(variant.model)
    fit(variant, compiled(variant.model))
    after = small.values(variant.model)
    moved = {path for path in before if (before[path] != after[path]).any()}
    # The second factor starts at zero, so that the first one has no gradient yet.
    assert moved == {"head/kernel", "head/bias"} | {
        f"block_0/attention/{name}/lora_kernel_b" for name in ("query", "key", "value", "output")
    }


def test_parts_of_a_block_that_are_frozen_stay_so_in_a_file(tmp_path):
    variant = small.build(num_layers=2)
    model = compiled(variant.model)
    block = model.get_layer("block_0")
    block.attention.trainable = False
    block.mlp.hidden.trainable = False
    model.get_layer("block_1").trainable = False
    model.compile(keras_vit.optimizers.AdamW(0.1), "sparse_categorical_crossentropy")
    fit(variant, model)
    model.save(tmp_path / "frozen.keras")
    loaded = keras.saving.load_model(tmp_path / "frozen.keras")
    trained = {v.path for v in loaded.trainable_variables}
    assert trained == {v.path for v in model.trainable_variables}
    assert "block_0/mlp/output/kernel" in trained and "block_0/mlp/hidden/bias" not in trained
    assert not any(re.match("block_0/attention/|block_1/", path) for path in trained)
    assert fit(variant, loaded) == fit(variant, model)
    small.assert_equal(small.values(loaded), small.values(model))
    loaded.get_layer("block_1").trainable = True
    assert "block_1/attention/query/kernel" in {v.path for v in loaded.trainable_variables}


def test_lora_as_the_guide_has_it(tmp_path):
    guide = (pathlib.Path(__file__).parents[2] / "docs" / "training.md").read_text()
    code = re.search(r"^### LoRA$.*?```python\n(.*?)```", guide, re.DOTALL | re.MULTILINE)[1]
    variant = small.build(num_layers=1, classifier_activation="softmax")
    model = variant.model
    exec(code, {"keras_vit": keras_vit, "model": model})
    before = small.values(model)
    model.fit(variant.images, LABELS, epochs=2, verbose=0)
    after = small.values(model)
    moved = {path for path in before if (before[path] != after[path]).any()}
    assert moved == {path for path in before if "lora" in path or path.startswith("head/")}
    assert len(moved) == 2 * 6 + 2
    model.save(tmp_path / "a.keras")
    loaded = keras.saving.load_model(tmp_path / "a.keras", compile=False)
    assert not [v.path for v in loaded.weights if "lora" in v.path]
    small.assert_close(small.call(loaded, variant.images), small.call(model, variant.images))
