"""BiT ResNets."""

import json

import keras
import numpy as np
import pytest
import reference_resnet
import small_models
from golden_resnets import load_bit
from small_models import assert_close, assign
from small_resnets import BIT, bit, call, outputs_of, random_images, trained

import keras_vit
from keras_vit import BiTResNet


def golden_model():
    arguments, weights, golden = load_bit()
    model = BiTResNet(**arguments, classifier_activation=None)
    assign(model, weights)
    return model, arguments, weights, golden


# --- Numbers -----------------------------------------------------------------------------------


def test_golden():
    model, arguments, weights, golden = golden_model()
    assert {v.path: tuple(v.shape) for v in model.weights} == {
        path: value.shape for path, value in weights.items()
    }
    assert_close(call(model, golden["images"]), golden["logits"])
    (pooled,) = outputs_of(model, ["pooling"], golden["images"])
    assert_close(pooled, golden["pre_logits"])


def test_stage_by_stage():
    model, arguments, weights, golden = golden_model()
    expected = reference_resnet.bit(arguments["num_layers"], weights, golden["images"])
    layers = model.spec.stage_layers
    assert layers == ("stage_1_unit_1", "stage_2_unit_2", "stage_3_unit_1", "stage_4_unit_1")
    *stages, features = outputs_of(model, [*layers, "features"], golden["images"])
    for computed, wanted in zip(stages, expected["stages"], strict=True):
        assert_close(computed, wanted)
    assert_close(features, expected["features"])


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"image_size": (225, 230), "num_layers": (1,)},
        {"image_size": (33, 64), "num_layers": (1, 1, 1, 1), "channels": 4},
        {"image_size": (1, 3)},
    ],
    ids=["odd", "225x230", "four_stages", "tiny"],
)
def test_outputs_equal_the_reference(fields):
    model, weights = bit(**fields)
    images = random_images(model)
    expected = reference_resnet.bit(model.spec.num_layers, weights, images)
    assert_close(call(model, images), expected["logits"])
    assert model.get_layer("features").output.shape[1:3] == model.spec.grid


def test_constants_show_in_flat_images():
    model, weights = bit()
    weights = {p: 1e-3 * w if "conv" in p else w for p, w in weights.items()}
    assign(model, weights)
    images = 1e-4 * random_images(model)
    expected = reference_resnet.bit((1, 2), weights, images)["logits"]
    assert_close(call(model, images), expected, 5e-5)
    wrong = reference_resnet.bit(
        (1, 2), weights, images, reference_resnet.Rules("symmetric", 1e-8, True, 1e-5)
    )
    assert small_models.relative_error(wrong["logits"], expected) > 1e-3
    wrong = reference_resnet.bit(
        (1, 2), weights, images, reference_resnet.Rules("symmetric", 1e-10, True, 1e-6)
    )
    assert small_models.relative_error(wrong["logits"], expected) > 1e-3


@pytest.mark.parametrize(
    ("include_top", "pooling", "output"),
    [
        (True, "avg", "logits"),
        (True, None, "logits"),
        (False, "avg", "pre_logits"),
        (False, "max", "max"),
        (False, None, "features"),
    ],
)
def test_top_and_pooling(include_top, pooling, output):
    model, weights = bit(include_top=include_top, pooling=pooling)
    if not include_top:
        weights["head/kernel"], weights["head/bias"] = np.zeros((256, 5)), np.zeros(5)
    images = random_images(model)
    expected = reference_resnet.bit((1, 2), weights, images)
    expected["max"] = expected["features"].max(axis=(1, 2))
    assert_close(call(model, images), expected[output])
    assert model.output_shape == (None, *expected[output].shape[1:])


def test_softmax_and_preprocessing_inside():
    model, weights = bit(classifier_activation="softmax", include_preprocessing=True)
    pixels = np.random.default_rng(0).integers(0, 256, (2, 34, 41, 3)).astype("uint8")
    expected = reference_resnet.bit((1, 2), weights, pixels / 127.5 - 1)["logits"]
    exponentials = np.exp(expected - expected.max(axis=1, keepdims=True))
    assert_close(call(model, pixels), exponentials / exponentials.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
def test_compiled_and_eager_outputs(compiled, as_users_run_it):
    model, weights = bit(num_layers=(1,))
    images = random_images(model)
    computed = model.predict(images, verbose=0) if compiled else model(images)
    expected = reference_resnet.bit((1,), weights, images)["logits"]
    assert_close(keras.ops.convert_to_numpy(computed), expected)


# --- Training ----------------------------------------------------------------------------------


def test_a_fresh_model():
    values = small_models.values(BiTResNet(**BIT))
    for path, value in values.items():
        if path.endswith("/gamma"):
            assert (value == 1).all(), path
        if path.endswith("/beta") or path.startswith("head/"):
            assert not value.any(), path
    kernel = values["stage_2_unit_2/conv2/kernel"]
    assert abs(kernel.std() * np.sqrt(9 * 64) - 1) < 0.02


def test_gradients_reach_every_raw_kernel():
    moved = trained(bit()[0])
    assert all(np.abs(after - before).max() > 1e-7 for before, after in moved.values())


def test_freezing_by_stage():
    model, _ = bit()
    for layer in model.layers:
        layer.trainable = not layer.name.startswith(("stem_", "stage_1_"))
    for path, (before, after) in trained(model).items():
        assert (before == after).all() == path.startswith(("stem_", "stage_1_")), path


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_is_finite_and_near(policy):
    model, weights = bit(dtype=policy)
    images = random_images(model)
    images[1] = 1.0  # flat
    assert {v.dtype for v in model.weights} == {"float32"}
    assert model.output.dtype == "float32"
    expected = reference_resnet.bit((1, 2), weights, images)["logits"]
    assert_close(call(model, images), expected, 0.1)
    if policy == "mixed_float16":
        trained(model)
        assert all(np.isfinite(value).all() for value in small_models.values(model).values())


def test_sums_over_many_inputs_stay_in_the_range_of_float16():
    # Nothing normalises what the units add until the end, and a filter of 4,608 weights multiplies
    # deviations by 68.
    model, weights = bit(image_size=(9, 6), num_layers=(2,), width=8.0, dtype="mixed_float16")
    images = random_images(model)
    expected = reference_resnet.bit((2,), weights, images)
    assert np.abs(expected["stages"][-1]).max() > 100
    assert_close(call(model, images), expected["logits"], 0.1)


# --- As a Keras model --------------------------------------------------------------------------


def test_saved_and_reloaded(tmp_path):
    model, _ = bit()
    images = random_images(model)
    model.save(tmp_path / "bit.keras")
    loaded = keras.saving.load_model(tmp_path / "bit.keras")
    assert loaded.spec == model.spec
    assert isinstance(loaded.spec, keras_vit.BiTSpec)
    assert loaded.spec.num_layers == (1, 2)
    np.testing.assert_array_equal(call(loaded, images), call(model, images))


def test_resize_keeps_every_weight():
    model, weights = bit()
    resized = keras_vit.resize(model, (50, 33))
    assert resized.spec.image_size == (50, 33)
    small_models.assert_equal(small_models.values(resized), small_models.values(model))
    images = random_images(resized)
    expected = reference_resnet.bit((1, 2), weights, images)["logits"]
    assert_close(call(resized, images), expected)
    with pytest.raises(ValueError, match="patch_size=2"):
        keras_vit.resize(model, patch_size=2)


def test_what_needs_tokens_refuses_a_resnet():
    model, _ = bit()
    with pytest.raises(ValueError, match=r"families 'vit'.*of the family 'bit'"):
        keras_vit.analysis.attention(model, random_images(model))


def test_images_of_another_size_are_refused():
    model, _ = bit()
    with pytest.raises(ValueError, match=r"takes images \(batch, 34, 41, 3\)"):
        model(np.zeros((1, 34, 34, 3), "float32"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_layers": 50}, "num_layers=50"),
        ({"num_layers": ()}, "at least one stage"),
        ({"num_layers": (1, 0)}, "num_layers=0"),
        ({"width": 0.25}, "multiple of 0.5.*width=0.25"),
        ({"pooling": "token"}, "pooling='token'"),
        ({"image_size": 0}, "image_size=0"),
        ({"classes": 0}, "classes=0"),
        ({"include_top": 1}, "include_top=1"),
    ],
)
def test_refuses(fields, message):
    with pytest.raises(ValueError, match=message):
        BiTResNet(**{**BIT, **fields})


def test_spec_goes_through_json():
    spec = bit()[0].spec
    fields = json.loads(json.dumps(spec.to_dict()))
    assert fields["family"] == "bit"
    assert keras_vit.BiTSpec.from_dict(fields) == spec


def test_a_family_of_the_future_is_refused():
    config = bit()[0].get_config()
    config["spec"]["family"] = "mixer"
    with pytest.raises(ValueError, match="family='mixer'"):
        keras_vit.ImageModel.from_config(config)
