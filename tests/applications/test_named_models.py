"""The named Vision Transformers: counts from the paper's formula, and the manners of Keras."""

import inspect
import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_vit

ROOT = pathlib.Path(__file__).parents[2]

# Class token, 1,000 classes, 224 pixels: params = P^2 3 D + D + D + (N + 1) D
#   + L (4 D + 4 D^2 + 4 D + 2 D M + M + D) + 2 D + 1000 D + 1000
PARAMETERS = {
    "ViT_Ti16": 5_717_416,
    "ViT_S32": 22_878_952,
    "ViT_S16": 22_050_664,
    "ViT_B32": 88_224_232,
    "ViT_B16": 86_567_656,
    "ViT_B8": 86_576_872,
    "ViT_L32": 306_535_400,
    "ViT_L16": 304_326_632,
    "ViT_L14": 304_203_752,
    "ViT_H14": 632_045_800,
    "ViT_g14": 1_012_611_432,
    "ViT_G14": 1_844_440_680,
}

COUNT = """
import json, sys
import keras, keras_vit

counts = {}
# No value is made, so a model of 1.8 billion parameters needs no memory. Keras keeps such variables
# in a list that the next scope would fill, hence a process of its own.
with keras.StatelessScope(initialize_variables=False):
    for name in sys.argv[1:]:
        counts[name] = getattr(keras_vit, name)(weights=None).count_params()
print(json.dumps(counts))
"""


def test_parameters_to_the_last_digit():
    done = subprocess.run(
        [sys.executable, "-c", COUNT, *PARAMETERS],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == PARAMETERS


def test_every_vision_transformer_is_counted():
    assert {name for name in keras_vit.__all__ if name.startswith("ViT_")} == set(PARAMETERS)


@pytest.mark.parametrize("name", PARAMETERS)
def test_arguments_stand_in_the_familiar_order(name):
    parameters = inspect.signature(getattr(keras_vit, name)).parameters
    positional = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == [
        "include_top",
        "weights",
        "input_tensor",
        "input_shape",
        "pooling",
        "classes",
        "classifier_activation",
    ]
    assert parameters["weights"].default == "imagenet"
    assert parameters["dropout_rate"].default == (0.1 if name in ("ViT_L16", "ViT_H14") else 0.0)


def tiny(**arguments):
    """The smallest of them on two by three patches."""
    arguments = {"weights": None, "input_shape": (32, 48, 3), "classes": 7, **arguments}
    return keras_vit.ViT_Ti16(**arguments)


@pytest.mark.parametrize(
    "arguments, shape",
    [
        ({}, (None, 7)),
        ({"classes": None}, (None, 1000)),
        ({"include_top": False}, (None, 7, 192)),  # the class token and 2 x 3 patches
        ({"include_top": False, "pooling": "token"}, (None, 192)),
        ({"include_top": False, "pooling": "avg"}, (None, 192)),
        ({"include_top": False, "pooling": "max"}, (None, 192)),
        ({"include_top": False, "pooling": "map"}, (None, 192)),
        ({"pooling": "avg", "representation_size": 40}, (None, 7)),
    ],
)
def test_output_shapes(arguments, shape):
    assert tiny(**arguments).output_shape == shape


def test_the_default_image_is_224_pixels_wide():
    assert keras_vit.ViT_Ti16(weights=None).input_shape == (None, 224, 224, 3)


def test_builds_on_a_tensor():
    images = keras.Input((32, 48, 1))
    model = tiny(input_shape=None, input_tensor=images)
    assert model.input is images and model.spec.channels == 1
    with pytest.raises(ValueError, match="must agree. Received: input_shape="):
        tiny(input_shape=(48, 32, 1), input_tensor=images)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"input_shape": (32, 48)}, "Received: input_shape="),
        ({"input_shape": (None, 48, 3)}, "Received: input_shape="),
        ({"input_shape": (3, 32, 48)}, r"channels last.*Did you mean \(32, 48, 3\)"),
        ({"input_shape": (32, 50, 3)}, "48 and 64"),
        ({"classes": 0}, "Received: classes=0"),
        ({"pooling": "cls"}, "'token', 'avg', 'max', 'map'"),
        ({"weights": "imagenet22k"}, "'imagenet21k'.*None.*Received: weights='imagenet22k'"),
        ({"weights": "missing.weights.h5"}, "Received: weights='missing.weights.h5'"),
        ({"dropout_rate": -0.1}, "Received: dropout_rate=-0.1"),
    ],
)
def test_refuses(arguments, words):
    with pytest.raises(ValueError, match=words):
        tiny(**arguments)


def test_a_pickle_is_refused(tmp_path):
    (tmp_path / "model.pth").write_bytes(b"\x80\x02}q\x00.")
    with pytest.raises(ValueError, match="pickle.*safetensors"):
        tiny(weights=str(tmp_path / "model.pth"))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model whose weights are all different, in each format, and its predictions."""
    folder = tmp_path_factory.mktemp("saved")
    model = tiny(classifier_activation=None)
    rng = np.random.default_rng(0)
    for variable in model.weights:
        variable.assign(0.1 * rng.normal(size=variable.shape))
    model.save(folder / "model.keras")
    model.save_weights(folder / "model.weights.h5")
    keras_vit.save_weights(model, folder / "model.npz")
    images = rng.uniform(-1, 1, (2, 32, 48, 3)).astype("float32")
    return folder, model, images, model.predict(images, verbose=0)


@pytest.mark.parametrize("file", ["model.keras", "model.weights.h5", "model.npz"])
def test_own_files_come_back(saved, file):
    folder, _, images, predictions = saved
    model = tiny(weights=folder / file, classes=None, classifier_activation=None)
    np.testing.assert_allclose(model.predict(images, verbose=0), predictions, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("file", ["model.keras", "model.weights.h5", "model.npz"])
def test_another_resolution_and_another_head_are_adapted_and_said(saved, file):
    folder, original, _, _ = saved
    with pytest.warns(UserWarning, match="grid 2x3 to 4x2.*5 classes; the file has 7"):
        model = tiny(weights=folder / file, classes=5, input_shape=(64, 32, 3))
    for mine, theirs in zip(model.weights, original.weights, strict=True):
        value = keras.ops.convert_to_numpy(mine)
        if mine.path.startswith("head/"):
            assert not value.any()
        elif mine.path == "position_embedding/table":
            resized = keras_vit.resize(original, image_size=(64, 32))
            wanted = keras.ops.convert_to_numpy(resized.get_layer("position_embedding").table)
            np.testing.assert_array_equal(value, wanted)
        else:
            np.testing.assert_array_equal(value, keras.ops.convert_to_numpy(theirs))


@pytest.mark.parametrize("file", ["model.keras", "model.weights.h5"])
def test_a_grid_for_a_file_that_knows_its_own_is_refused(saved, file):
    with pytest.raises(ValueError, match="Received: source_grid="):
        keras_vit.load_weights(saved[1], saved[0] / file, source_grid=(3, 2))


def test_what_contradicts_the_file_is_refused(saved):
    with pytest.raises(ValueError, match="Received: representation_size=9"):
        tiny(weights=saved[0] / "model.npz", representation_size=9)
    with pytest.raises(ValueError, match=r"hidden_dim=192 \(ViT_S16 has 384\)"):
        keras_vit.ViT_S16(weights=saved[0] / "model.npz")
