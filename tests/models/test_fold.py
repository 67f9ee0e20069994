"""Weight standardisation done once."""

import keras
import numpy as np
import pytest
import small_models
from golden_resnets import load_hybrid
from small_models import assert_close, assign
from small_resnets import bit, call, hybrid, random_images, trained

import keras_vit
from keras_vit import VisionTransformer

FAMILIES = {
    "google": lambda **fields: hybrid(origin="google", **fields)[0],
    "timm": lambda **fields: hybrid(origin="timm", **fields)[0],
    "bit": lambda **fields: bit(**fields)[0],
}


def kernels(model):
    """The kernels of the ResNet, by path."""
    values = small_models.values(model).items()
    return {path: value for path, value in values if path.startswith("st") and value.ndim == 4}


@pytest.mark.parametrize("family", FAMILIES)
def test_same_outputs_from_standardised_kernels(family):
    model = FAMILIES[family]()
    before = small_models.values(model)
    folded = keras_vit.fold_weight_standardization(model)
    assert folded.spec.folded and not model.spec.folded
    assert folded.name == model.name

    images = random_images(model)
    eager = [small_models.call(each, images) for each in (folded, model)]
    assert_close(*eager, 1e-6)
    # Compiled, the standardisation itself is rounded otherwise.
    assert_close(folded.predict(images, verbose=0), model.predict(images, verbose=0), 5e-6)

    small_models.assert_equal(small_models.values(model), before)
    after = small_models.values(folded)
    standardised = kernels(folded)
    assert len(standardised) == 12
    for path, value in standardised.items():
        assert abs(value.mean(axis=(0, 1, 2))).max() < 1e-6, path
        assert abs(value.std(axis=(0, 1, 2)) - 1).max() < 1e-3, path
    rest = after.keys() - standardised.keys()
    small_models.assert_equal({p: after[p] for p in rest}, {p: before[p] for p in rest})


def test_a_golden_folded():
    spec, weights, golden = load_hybrid("hybrid_stages")
    model = VisionTransformer(**{k: v for k, v in spec.items() if k in small_models.ARGUMENTS})
    assign(model, weights)
    folded = keras_vit.fold_weight_standardization(model)
    assert_close(call(folded, golden["images"]), golden["logits"])
    resized = keras_vit.resize(folded, golden["resized_images"].shape[1:3])
    assert resized.spec.folded
    assert_close(call(resized, golden["resized_images"]), golden["resized_logits"])


@pytest.mark.parametrize("family", ["google", "bit"])
def test_saved_and_reloaded(family, tmp_path):
    folded = keras_vit.fold_weight_standardization(FAMILIES[family]())
    images = random_images(folded)
    folded.save(tmp_path / "folded.keras")
    loaded = keras.saving.load_model(tmp_path / "folded.keras")
    assert loaded.spec.folded
    np.testing.assert_array_equal(call(loaded, images), call(folded, images))


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="exports with TensorFlow")
def test_exported(tmp_path):
    import tensorflow as tf

    folded = keras_vit.fold_weight_standardization(FAMILIES["bit"]())
    images = random_images(folded, batch=3)
    folded.export(tmp_path / "folded", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "folded"))
    assert_close(np.asarray(served.serve(images)), call(folded, images), 1e-5)


@pytest.mark.parametrize("family", ["google", "bit"])
def test_weights_of_the_other_kind_are_refused(family, tmp_path):
    model = FAMILIES[family]()
    folded = keras_vit.fold_weight_standardization(model)
    for source, target in ((model, folded), (folded, model)):
        path = tmp_path / f"{source.spec.folded}.keras"
        source.save(path)
        before = small_models.values(target)
        with pytest.raises(ValueError, match=f"folded={source.spec.folded} in the file"):
            keras_vit.load_weights(target, path)
        small_models.assert_equal(small_models.values(target), before)


def test_folding_twice_changes_nothing():
    folded = keras_vit.fold_weight_standardization(FAMILIES["google"]())
    again = keras_vit.fold_weight_standardization(folded)
    small_models.assert_equal(small_models.values(again), small_models.values(folded))


def test_precision_and_frozen_layers_are_kept():
    model = FAMILIES["bit"](dtype="mixed_bfloat16")
    model.get_layer("stage_1_unit_1").trainable = False
    folded = keras_vit.fold_weight_standardization(model)
    assert not folded.get_layer("stage_1_unit_1").trainable
    assert folded.get_layer("stage_2_unit_1").trainable
    assert folded.get_layer("stem_conv").compute_dtype == "bfloat16"
    assert {v.dtype for v in folded.weights} == {"float32"}
    images = random_images(model)
    assert_close(small_models.call(folded, images), small_models.call(model, images), 1e-6)


def test_training_moves_the_kernels_themselves():
    folded = keras_vit.fold_weight_standardization(FAMILIES["bit"](num_layers=(1,)))
    moved = trained(folded)
    before, after = moved["stage_1_unit_1/conv2/kernel"]
    assert np.abs(after - before).max() > 1e-7


def test_refuses_models_without_standardised_convolutions():
    vit = VisionTransformer(16, 8, 1, 2, 8, 16)
    with pytest.raises(ValueError, match="Only hybrids and BiT ResNets.*resnet=None"):
        keras_vit.fold_weight_standardization(vit)
    with pytest.raises(ValueError, match="has no spec"):
        keras_vit.fold_weight_standardization(keras.Sequential([keras.layers.Dense(3)]))
    with pytest.raises(ValueError, match="folded=True"):
        keras_vit.ViTSpec((16, 16), (8, 8), 1, 2, 8, 16, folded=True)


def test_refuses_a_model_with_other_variables():
    model = FAMILIES["bit"]()
    model.get_layer("head").enable_lora(2)
    with pytest.raises(ValueError, match="call `fold_weight_standardization` before them"):
        keras_vit.fold_weight_standardization(model)
