"""How images are prepared, by the files that timm and transformers keep beside their weights."""

import json

import numpy as np
import pytest
from foreign_weights import golden_arrays
from golden_weights import GOLDENS

import keras_vit
from keras_vit.applications.from_file import model_from_file
from keras_vit.weights import image_facts, safetensors

# transformers.

SIDES = {"height": 32, "width": 32}
PLAIN = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.25, 0.3], "size": SIDES}


def prepared(pixels, facts):
    mean, std = (np.broadcast_to(facts[name], 3) for name in ("mean", "std"))
    return (pixels / 255 - mean) / std


@pytest.mark.parametrize(
    ("said", "pixel", "value"),
    [
        ({}, 102, (0.0, -0.4, -2 / 3)),  # (0.4 - mean) / std
        ({"rescale_factor": 1 / 127.5}, 102, (2.0, 1.2, 2 / 3)),  # (0.8 - mean) / std
        ({"do_normalize": False}, 102, 0.4),
        ({"do_normalize": False, "rescale_factor": 0.01}, 102, 1.02),
        ({"do_rescale": False}, 3, (13.0, 10.0, 8.0)),
        ({"do_rescale": False, "do_normalize": False}, 3, 3.0),
        ({"image_mean": None}, 102, (-0.5, -0.4, -1 / 3)),  # a half, as ViTImageProcessor has
    ],
    ids=str,
)
def test_pixels_of_transformers(said, pixel, value):
    facts = image_facts.of_transformers({**PLAIN, **said})
    np.testing.assert_allclose(prepared(pixel, facts), np.broadcast_to(value, 3), atol=1e-9)


def test_published_constants_are_exact():
    facts = image_facts.of_transformers({**PLAIN, "image_mean": [0.485, 0.456, 0.406]})
    assert facts["mean"] == (0.485, 0.456, 0.406) and facts["std"] == (0.2, 0.25, 0.3)


BIT = {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 256}}
DEIT = {"feature_extractor_type": "DeiTFeatureExtractor"}


@pytest.mark.parametrize(
    ("said", "crop_mode", "crop_fraction", "resize_method"),
    [
        ({}, "squash", 1.0, "bilinear"),
        ({"resample": 3}, "squash", 1.0, "bicubic"),
        ({"size": 224, "feature_extractor_type": "ViTFeatureExtractor"}, "squash", 1.0, "bilinear"),
        ({"image_processor_type": "ViTImageProcessorFast"}, "squash", 1.0, "bilinear"),
        ({**DEIT, "size": 256, "crop_size": 224}, "squash", 0.875, "bicubic"),
        ({**BIT, "crop_size": {"height": 224, "width": 224}}, "center", 0.875, "bicubic"),
        ({**BIT, "size": 256, "crop_size": 224}, "center", 0.875, "bicubic"),
        ({**BIT, "crop_size": 224, "do_center_crop": False}, "center", 1.0, "bicubic"),
        ({"do_resize": False}, "squash", 1.0, "bilinear"),
    ],
    ids=str,
)
def test_crops_of_transformers(said, crop_mode, crop_fraction, resize_method):
    facts = image_facts.of_transformers({**PLAIN, **said})
    assert (facts["crop_mode"], facts["crop_fraction"]) == (crop_mode, crop_fraction)
    assert (facts["resize_method"], facts["antialias"]) == (resize_method, True)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"resample": 1}, "Received: resample=1"),
        ({"image_processor_type": "GLPNImageProcessor"}, "image_processor_type='GLPN'"),
        ({**BIT, "image_mean": None}, "image_mean=None"),
        ({"rescale_factor": 0}, "rescale_factor=0: it must be positive"),
        ({"size": {"longest_edge": 32}}, "size={'longest_edge': 32}"),
        ({**BIT, "crop_size": {"width": 224}}, "crop_size=None"),
        ({**BIT, "crop_size": 288}, "crop_size=288: it is larger than the image, 256"),
    ],
)
def test_what_cannot_be_done_is_refused(said, words):
    with pytest.raises(ValueError, match=f"preprocessor_config.json.*{words}"):
        image_facts.of_transformers({**PLAIN, **said})


# timm.


def test_timm_and_its_defaults():
    assert image_facts.of_timm({"input_size": [3, 32, 32]}) is None
    assert image_facts.of_timm({"crop_pct": 0.9}) == {
        "mean": (0.485, 0.456, 0.406),
        "std": (0.229, 0.224, 0.225),
        "crop_fraction": 0.9,
        "crop_mode": "center",
        "resize_method": "bicubic",
        "antialias": True,
    }
    said = {"mean": [0.4], "std": [0.2], "crop_mode": "squash", "interpolation": "bilinear"}
    facts = image_facts.of_timm(said)
    assert (facts["mean"], facts["std"], facts["crop_mode"]) == ((0.4,), (0.2,), "squash")
    assert (facts["crop_fraction"], facts["resize_method"]) == (0.875, "bilinear")
    for key, value in (("crop_mode", "border"), ("interpolation", "lanczos")):
        with pytest.raises(ValueError, match=f"config.json.*Received: {key}='{value}'"):
            image_facts.of_timm({**said, key: value})


# In a model.


def folder_of(tmp_path, golden, **configs):
    """A folder as the libraries write them."""
    safetensors.write(tmp_path / "model.safetensors", golden_arrays(golden), {"format": "pt"})
    for name, config in configs.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(config))
    return tmp_path


@pytest.mark.parametrize("inside", [False, True], ids=["folder", "file"])
def test_a_folder_of_transformers_brings_its_pixels(tmp_path, inside):
    config = json.loads((GOLDENS / "hf_vit" / "config.json").read_text())
    path = folder_of(tmp_path, "hf_vit", config=config, preprocessor_config=PLAIN)
    model, _ = model_from_file(path / "model.safetensors" if inside else path)
    images = np.full((1, 32, 32, 3), 102, "uint8")
    pixels = keras_vit.preprocess_input(images, model)[0, 0, 0]
    np.testing.assert_allclose(pixels, [0.0, -0.4, -2 / 3], atol=1e-6)


def test_a_folder_of_timm_brings_its_pixels(tmp_path):
    config = {"model_args": {"num_heads": 3}, "pretrained_cfg": {"mean": [0.4] * 3}}
    config["pretrained_cfg"]["std"] = [0.2] * 3
    model, _ = model_from_file(folder_of(tmp_path, "timm_vit_token", config=config))
    images = np.full((1, 32, 32, 3), 153, "uint8")
    np.testing.assert_allclose(keras_vit.preprocess_input(images, model), 1.0, atol=1e-6)


def test_what_keras_vit_recorded_is_more_than_a_config_says(tmp_path):
    config = {"model_args": {"num_heads": 3}, "pretrained_cfg": {"mean": [0.4] * 3}}
    source, _ = model_from_file(folder_of(tmp_path, "timm_vit_token", config=config))
    keras_vit.save_weights(source, tmp_path / "again", format="timm")
    again, _ = model_from_file(tmp_path / "again")
    assert again.spec.preprocessing == source.spec.preprocessing
