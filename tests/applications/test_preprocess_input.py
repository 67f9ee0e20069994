"""Pixels to a model's range, against arithmetic written out here."""

import dataclasses
import importlib.util

import keras
import numpy as np
import pytest
import small_models

import keras_vit
from keras_vit import ViTSpec
from keras_vit.models.preprocessing import Preprocessing
from keras_vit.weights import catalogue

MEAN, STD = (0.4, 0.5, 0.3), (0.2, 0.25, 0.1)
FACTS = Preprocessing(mean=MEAN, std=STD)


def spec(**fields):
    sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 4, "mlp_dim": 4}
    fields = {"preprocessing": FACTS, **fields}
    return ViTSpec(image_size=(8, 16), patch_size=8, **sizes, **fields)


def pixels(shape=(2, 3, 4, 3), seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape).astype("uint8")


def wanted(images):
    """In float64."""
    return (images / 255.0 - np.array(MEAN)) / np.array(STD)


def numpy(tensor):
    return keras.ops.convert_to_numpy(tensor)


def test_by_hand():
    image = np.array([[[0, 102, 255]]], "uint8")
    # (0 - 0.4) / 0.2, (0.4 - 0.5) / 0.25, (1 - 0.3) / 0.1
    result = keras_vit.preprocess_input(image, spec())
    np.testing.assert_allclose(result, [[[-2.0, -0.4, 7.0]]], rtol=1e-6)
    assert type(result) is np.ndarray and result.dtype == "float32"


def test_without_a_model_it_is_the_range_of_the_paper():
    image = np.array([[[0.0, 127.5, 255.0]]])
    np.testing.assert_allclose(keras_vit.preprocess_input(image), [[[-1, 0, 1]]], atol=1e-7)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_are_what_the_argument_says(dtype):
    images = pixels()
    for low, high in ((0, 255), (0, 1), (-1, 1), (-1000, 3000)):
        floats = (images / 255.0 * (high - low) + low).astype(dtype)
        result = keras_vit.preprocess_input(floats, spec(), value_range=(low, high))
        assert result.dtype == "float32"
        tolerance = 2e-2 if dtype == "float16" else 1e-5
        np.testing.assert_allclose(result, wanted(images), atol=tolerance)


def test_content_is_never_guessed():
    dark = np.full((1, 1, 3), 0.5, "float32")  # nearly black, where 255 is white
    np.testing.assert_allclose(keras_vit.preprocess_input(dark), 0.5 / 127.5 - 1, rtol=1e-6)
    np.testing.assert_allclose(keras_vit.preprocess_input(dark, value_range=(0, 1)), 0, atol=1e-7)


def test_a_byte_is_a_byte():
    images = pixels()
    result = keras_vit.preprocess_input(images, spec(), value_range=(0, 1))
    np.testing.assert_allclose(result, wanted(images), atol=1e-5)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("include_preprocessing", [False, True])
def test_the_callers_array_stays_as_it_was(dtype, include_preprocessing):
    images = pixels().astype(dtype)
    images.setflags(write=False)
    before = images.copy()
    result = keras_vit.preprocess_input(images, spec(include_preprocessing=include_preprocessing))
    np.testing.assert_array_equal(images, before)
    assert not np.shares_memory(result, images)


def test_a_model_that_scales_by_itself_gets_bytes_as_floats():
    images, scales = pixels(), spec(include_preprocessing=True)
    np.testing.assert_array_equal(keras_vit.preprocess_input(images, scales), images)
    unit = keras_vit.preprocess_input(images / 255.0, scales, value_range=(0, 1))
    np.testing.assert_allclose(unit, images, atol=1e-4)


def test_it_is_what_the_model_does_itself():
    inside = small_models.build(include_preprocessing=True, seed=3)
    outside = small_models.build(seed=3)
    height, width = outside.spec["image_size"]
    images = pixels((2, height, width, outside.spec["channels"]))
    scaled = keras_vit.preprocess_input(images, outside.model)
    small_models.assert_close(
        small_models.call(outside.model, scaled), small_models.call(inside.model, images)
    )


def test_tensors_of_the_backend_stay_so():
    images = pixels()
    result = keras_vit.preprocess_input(keras.ops.convert_to_tensor(images), spec())
    assert keras.ops.is_tensor(result)
    np.testing.assert_allclose(numpy(result), wanted(images), atol=1e-5)
    bfloat = keras.ops.cast(keras.ops.ones((1, 1, 3)), "bfloat16")
    assert keras.backend.standardize_dtype(keras_vit.preprocess_input(bfloat).dtype) == "float32"


def test_in_a_functional_graph():
    inputs = keras.Input((4, 5, 3), dtype="uint8")
    model = keras.Model(inputs, keras_vit.preprocess_input(inputs, spec()))
    images = pixels((2, 4, 5, 3))
    np.testing.assert_allclose(numpy(model(images)), wanted(images), atol=1e-5)


@pytest.mark.skipif(not importlib.util.find_spec("tensorflow"), reason="needs TensorFlow")
def test_in_a_data_pipeline_on_every_backend():
    from pipelines._tensorflow import tf

    images = pixels((3, 4, 5, 3))
    data = tf.data.Dataset.from_tensor_slices(images).batch(2)
    data = data.map(lambda batch: keras_vit.preprocess_input(batch, spec()))
    assert data.element_spec.dtype == tf.float32
    result = np.concatenate([batch.numpy() for batch in data])
    np.testing.assert_allclose(result, wanted(images), atol=1e-5)
    with pytest.raises(ValueError, match="3 channels"):
        wrong = tf.data.Dataset.from_tensor_slices(pixels((1, 4, 5, 4)))
        wrong.map(lambda image: keras_vit.preprocess_input(image, spec()))


def test_pillow_and_one_image():
    image = pytest.importorskip("PIL.Image").fromarray(pixels((4, 5, 3)))
    np.testing.assert_allclose(
        keras_vit.preprocess_input(image, spec()), wanted(pixels((4, 5, 3))), atol=1e-5
    )


@pytest.mark.parametrize("name", ["imagenet", "ViT_B16/imagenet", "ViT_L16/orig_imagenet21k"])
def test_published_weights_by_name(name):
    image = np.array([[[0, 0, 255]]], "uint8")
    np.testing.assert_allclose(keras_vit.preprocess_input(image, name), [[[-1, -1, 1]]])


def test_an_entry_with_means_of_its_own(monkeypatch):
    known = catalogue.find("ViT_S16", "imagenet")
    entry = dataclasses.replace(known, name="mine", preprocessing=FACTS)
    twin = dataclasses.replace(known, name="mine", model="ViT_B16")
    monkeypatch.setattr(catalogue, "ENTRIES", (entry, twin))
    result = keras_vit.preprocess_input(pixels(), "ViT_S16/mine")
    np.testing.assert_allclose(result, wanted(pixels()), atol=1e-5)
    with pytest.raises(ValueError, match="'ViT_S16/mine', 'ViT_B16/mine'"):
        keras_vit.preprocess_input(pixels(), "mine")


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint16", "bool"])
def test_other_integers_are_refused(dtype):
    with pytest.raises(ValueError, match=f"uint8.*dtype={dtype}"):
        keras_vit.preprocess_input(pixels().astype(dtype))


@pytest.mark.parametrize(
    "shape, words",
    [
        ((4, 5), r"shape=\(4, 5\)"),
        ((1, 2, 4, 5, 3), "channels last"),
        ((2, 3, 4, 5), "3 channels.*last axis"),  # channels first, five pixels wide
        ((4, 5, 1), "3 channels"),
    ],
)
def test_other_shapes_are_refused(shape, words):
    with pytest.raises(ValueError, match=words):
        keras_vit.preprocess_input(pixels(shape), spec())
    with pytest.raises(ValueError, match=words):
        keras_vit.preprocess_input(keras.ops.convert_to_tensor(pixels(shape)), "ViT_B16/imagenet")


@pytest.mark.parametrize("value_range", [255, (0,), (1, 0), (0, 0), ("0", "1"), None, (0, True)])
def test_other_ranges_are_refused(value_range):
    with pytest.raises(ValueError, match="Received: value_range="):
        keras_vit.preprocess_input(pixels(), value_range=value_range)


@pytest.mark.parametrize(
    "model, words",
    [
        ("ViT_B17/imagenet", "ViT_B16.*Received: 'ViT_B17/imagenet'"),
        ("ViT_B16/jft", "augreg_imagenet21k.*Received: weights='jft'"),
        ("jft", "'ViT_B16/imagenet'.*Received: 'jft'"),
        (3, "Received: model_or_weights=3"),
    ],
)
def test_other_models_are_refused(model, words):
    with pytest.raises(ValueError, match=words):
        keras_vit.preprocess_input(pixels(), model)


def test_a_clone_without_a_spec_is_refused():
    inputs = keras.Input((8, 8, 3))
    with pytest.raises(ValueError, match="made by keras_vit"):
        keras_vit.preprocess_input(pixels(), keras.Model(inputs, inputs))
