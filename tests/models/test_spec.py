"""The spec: what is refused, what is resolved, and that it survives JSON and files."""

import dataclasses
import inspect
import json

import keras
import numpy as np
import pytest
from small_models import variant

import keras_vit
from keras_vit import VisionTransformer, ViTSpec
from keras_vit.models.preprocessing import Preprocessing

SIZES = {
    "image_size": (24, 40),
    "patch_size": 8,
    "num_layers": 2,
    "num_heads": 3,
    "hidden_dim": 24,
    "mlp_dim": 40,
}

# Every field at a value that is not its default, none equal to another.
CHANGED = {
    "image_size": (16, 24),
    "patch_size": (8, 4),
    "num_layers": 3,
    "num_heads": 2,
    "hidden_dim": 12,
    "mlp_dim": 14,
    "channels": 4,
    "classes": 5,
    "include_top": True,
    "classifier_activation": "sigmoid",
    "pooling": "map",
    "representation_size": 11,
    "position_embedding": "learned_2d",
    "position_injection": "every_layer",
    "class_token": True,
    "class_token_position": False,
    "num_registers": 2,
    "norm_after_pool": True,
    "layer_scale": 0.25,
    "qk_norm": True,
    "origin": "timm",
    "activation": "relu",
    "layer_norm_epsilon": 1e-3,
    "interpolation": "bicubic",
    "dropout_rate": 0.1,
    "attention_dropout_rate": 0.2,
    "drop_path_rate": 0.3,
    "include_preprocessing": True,
    "dtype": "mixed_bfloat16",
    "preprocessing": Preprocessing(
        mean=(0.1, 0.2, 0.3, 0.4),
        std=(0.5, 0.6, 0.7, 0.8),
        crop_fraction=0.875,
        crop_mode="center",
        resize_method="bicubic",
        antialias=True,
    ),
    "class_names": ("ant", "bee", "cat", "dog", "eel"),
}


# --- Bad input ---------------------------------------------------------------------------------

# What is changed, and what the message must contain.
BAD = [
    # Sizes: the axis is named, and the nearest sizes that do.
    ({"image_size": (25, 40)}, ["height", "image_size=(25, 40)", "24 and 32"]),
    ({"image_size": (24, 41)}, ["width", "image_size=(24, 41)", "40 and 48"]),
    ({"image_size": (24, 40), "patch_size": (8, 16)}, ["width", "patch_size=(8, 16)", "32 and 48"]),
    ({"image_size": 4}, ["height", "image_size=(4, 4)", "are 8."]),
    ({"image_size": None}, ["`image_size` must be", "Received: image_size=None"]),
    ({"image_size": (None, 40)}, ["`image_size` must be", "(None, 40)"]),
    ({"image_size": (24, 40, 3)}, ["`image_size` must be", "(24, 40, 3)"]),
    ({"image_size": 24.0}, ["`image_size` must be", "24.0"]),
    ({"image_size": -24}, ["`image_size` must be", "-24"]),
    ({"image_size": "24"}, ["`image_size` must be", "'24'"]),
    ({"patch_size": 0}, ["`patch_size` must be", "0"]),
    ({"hidden_dim": 25}, ["`hidden_dim`", "hidden_dim=25, num_heads=3", "24 and 27"]),
    ({"num_heads": 0}, ["`num_heads`", "at least 1", "num_heads=0"]),
    ({"num_layers": 0}, ["`num_layers`", "num_layers=0"]),
    ({"mlp_dim": -1}, ["`mlp_dim`", "mlp_dim=-1"]),
    ({"mlp_dim": 40.0}, ["`mlp_dim`", "mlp_dim=40.0"]),
    ({"channels": 0}, ["`channels`", "channels=0"]),
    ({"num_registers": -1}, ["`num_registers`", "at least 0", "-1"]),
    ({"representation_size": 0}, ["`representation_size`", "=0"]),
    # Classes.
    ({"classes": 0}, ["`classes`", "at least 1", "classes=0"]),
    ({"classes": -3}, ["`classes`", "classes=-3"]),
    ({"classes": True}, ["`classes`", "classes=True"]),
    ({"classes": None}, ["`classes`", "classes=None"]),
    # Names: the right ones are listed.
    ({"pooling": "cls"}, ["'token', 'avg', 'max', 'map'", "pooling='cls'"]),
    ({"pooling": ["avg"]}, ["'token', 'avg', 'max', 'map'", "pooling=['avg']"]),
    (
        {"position_embedding": "rope"},
        ["'learned', 'none', 'learned_2d', 'relative', 'sincos2d'", "position_embedding='rope'"],
    ),
    ({"position_embedding": None}, ["'learned'", "position_embedding=None"]),
    ({"position_injection": "all"}, ["'stem', 'every_layer', 'shared'", "'all'"]),
    ({"origin": "jax"}, ["'google', 'timm', 'huggingface'", "origin='jax'"]),
    ({"activation": "gulp"}, ["'gelu_tanh'", "'gelu'", "activation='gulp'"]),
    # Rates.
    ({"dropout_rate": -0.1}, ["`dropout_rate`", "-0.1"]),
    ({"attention_dropout_rate": 1.0}, ["`attention_dropout_rate`", "1.0"]),
    ({"drop_path_rate": -1}, ["`drop_path_rate`", "-1"]),
    ({"drop_path_rate": float("nan")}, ["`drop_path_rate`", "nan"]),
    ({"dropout_rate": "0.1"}, ["`dropout_rate`", "'0.1'"]),
    ({"patch_dropout_rate": 1.0}, ["`patch_dropout_rate`", "1.0"]),
    # Numbers and flags.
    ({"layer_norm_epsilon": 0}, ["`layer_norm_epsilon`", "positive"]),
    ({"layer_scale": "small"}, ["`layer_scale`", "'small'"]),
    ({"qk_norm": 1}, ["`qk_norm`", "True or False", "qk_norm=1"]),
    ({"class_token": "yes"}, ["`class_token`", "'yes'"]),
    # What does not go together.
    ({"pooling": "token", "class_token": False}, ["class token", "class_token=False"]),
    ({"representation_size": 8, "include_top": False}, ["include_top=False", "pre_logits"]),
    (
        {"norm_after_pool": True, "pooling": None, "include_top": False},
        ["`norm_after_pool=True`", "pooling=None"],
    ),
    (
        {"position_embedding": "relative", "position_injection": "shared"},
        ["'relative'", "position_injection='shared'"],
    ),
    (
        {"position_embedding": "relative", "patch_dropout_rate": 0.5},
        ["added once", "patch_dropout_rate=0.5", "'relative'"],
    ),
    (
        {"position_injection": "every_layer", "patch_dropout_rate": 0.5},
        ["added once", "position_injection='every_layer'"],
    ),
    (
        {"position_embedding": "none", "position_injection": "every_layer"},
        ["'none'", "position_injection='every_layer'"],
    ),
    (
        {"position_embedding": "sincos2d", "hidden_dim": 18},
        ["'sincos2d'", "multiple of 4", "hidden_dim=18"],
    ),
    (
        {"position_embedding": "learned_2d", "hidden_dim": 27},
        ["'learned_2d'", "multiple of 2", "hidden_dim=27"],
    ),
]


@pytest.mark.parametrize(("fields", "words"), BAD, ids=lambda value: str(value)[:50])
def test_bad_input_is_refused_when_the_model_is_built(fields, words):
    with pytest.raises(ValueError) as raised:
        VisionTransformer(**{**SIZES, **fields})
    message = str(raised.value)
    assert "Received" in message
    for word in words:
        assert word in message


def test_patch_14_at_512_suggests_504_and_518():
    with pytest.raises(ValueError, match="height.*14 are 504 and 518"):
        keras_vit.ViT_H14(weights=None, input_shape=(512, 512, 3))
    with pytest.raises(ValueError, match="width.*14 are 504 and 518"):
        keras_vit.ViT_H14(weights=None, input_shape=(504, 512, 3))


@pytest.mark.parametrize("shape", [(None, None, 3), (32, None, 3), (32, 32), 32, (32, 32, None)])
def test_named_models_need_a_static_shape(shape):
    with pytest.raises(ValueError, match=r"`input_shape` must be `\(height, width, channels\)`"):
        keras_vit.ViT_Ti16(weights=None, input_shape=shape)


def test_unknown_names_of_policy_and_classifier_activation_are_value_errors():
    with pytest.raises(ValueError, match="mixed_int3"):
        VisionTransformer(**SIZES, dtype="mixed_int3")
    with pytest.raises(ValueError, match="softmacks"):
        VisionTransformer(**SIZES, classifier_activation="softmacks")


@pytest.mark.parametrize("family", [keras_vit.VisionTransformer, keras_vit.BiTResNet])
def test_an_activation_may_be_keras_own_function(family):
    sizes = SIZES
    if family is keras_vit.BiTResNet:
        sizes = {"image_size": (24, 40), "num_layers": (1,), "width": 0.5}
    model = family(**sizes, classifier_activation=keras.activations.sigmoid)
    assert json.loads(json.dumps(model.spec.to_dict()))["classifier_activation"] == "sigmoid"
    with pytest.raises(ValueError, match="Received: classifier_activation=<function"):
        family(**sizes, classifier_activation=lambda x: x)


def test_facts_must_fit_the_sizes():
    with pytest.raises(ValueError, match=r"`mean`.*3 channels.*\(0.5, 0.4\)"):
        ViTSpec(**SIZES, preprocessing=Preprocessing(mean=(0.5, 0.4)))
    with pytest.raises(ValueError, match="`std` must be positive"):
        Preprocessing(std=(0.5, 0.0, 0.5))
    with pytest.raises(ValueError, match="2 names, classes=3"):
        ViTSpec(**SIZES, classes=3, class_names=("ant", "bee"))


# --- What is resolved --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origin", "constants"),
    [
        ("google", ("gelu_tanh", 1e-6, "bilinear")),
        ("timm", ("gelu", 1e-6, "bicubic_antialias")),
        ("huggingface", ("gelu", 1e-12, "bicubic")),
    ],
)
def test_origin_sets_the_constants_and_arguments_override_them(origin, constants):
    spec = ViTSpec(**SIZES, origin=origin)
    assert (spec.activation, spec.layer_norm_epsilon, spec.interpolation) == constants
    other = ViTSpec(**SIZES, origin=origin, activation="relu", layer_norm_epsilon=0.1)
    assert (other.activation, other.layer_norm_epsilon, other.interpolation) == (
        "relu",
        0.1,
        constants[2],
    )


@pytest.mark.parametrize(
    ("fields", "pooling", "class_token", "prefix", "position_prefix", "tokens"),
    [
        ({}, "token", True, 1, 1, 16),
        ({"pooling": None}, "token", True, 1, 1, 16),
        ({"pooling": None, "include_top": False}, None, False, 0, 0, 15),
        ({"pooling": "avg"}, "avg", False, 0, 0, 15),
        ({"pooling": "map", "class_token": True}, "map", True, 1, 1, 16),
        ({"num_registers": 4}, "token", True, 5, 5, 20),
        ({"num_registers": 4, "class_token_position": False}, "token", True, 5, 0, 20),
    ],
)
def test_tokens_that_follow_from_the_fields(
    fields, pooling, class_token, prefix, position_prefix, tokens
):
    spec = ViTSpec(**SIZES, **fields)
    assert spec.grid == (3, 5)
    assert (spec.pooling, spec.class_token) == (pooling, class_token)
    assert (spec.prefix_tokens, spec.position_prefix) == (prefix, position_prefix)
    assert spec.num_tokens == tokens


def test_numpy_integers_become_plain_ones():
    spec = ViTSpec(**{**SIZES, "image_size": np.array([24, 40]), "num_layers": np.int64(2)})
    assert spec == ViTSpec(**SIZES)
    json.dumps(spec.to_dict())


def test_a_spec_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ViTSpec(**SIZES).num_layers = 3


# --- Through JSON and files --------------------------------------------------------------------


# Fields that do not go together with all the others.
APART = {"resnet", "resnet_width", "folded", "patch_dropout_rate"}


def test_changed_changes_every_field():
    fields = {field.name: field.default for field in dataclasses.fields(ViTSpec)}
    assert fields.keys() - APART == CHANGED.keys()
    default = {**fields, **SIZES}
    for name in CHANGED.keys() - {"include_top"}:  # without a top there is little else to change
        assert CHANGED[name] != default[name], name


def test_every_field_survives_json():
    for spec in (ViTSpec(**CHANGED), ViTSpec(**SIZES, include_top=False, pooling=None)):
        again = ViTSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
        assert again == spec
        assert hash(again) == hash(spec)  # tuples stayed tuples


def test_every_argument_of_the_builder_survives_the_models_config():
    arguments = inspect.signature(VisionTransformer).parameters.keys()
    fields = {name: value for name, value in CHANGED.items() if name in arguments}
    assert arguments - fields.keys() - APART == {"input_tensor", "name"}
    model = VisionTransformer(**fields, name="changed")
    again = keras_vit.ImageModel.from_config(json.loads(json.dumps(model.get_config())))
    assert again.spec == model.spec
    assert again.name == "changed"
    for name, value in fields.items():
        assert getattr(again.spec, name) == value, name
    # And each value reached the layers, whose own configs are what computes.
    assert [layer.get_config() for layer in again.layers] == [
        layer.get_config() for layer in model.layers
    ]
    block = again.get_layer("block_2").get_config()
    assert (block["num_heads"], block["mlp_dim"], block["activation"]) == (2, 14, "relu")
    assert (block["layer_scale"], block["qk_norm"], block["layer_norm_epsilon"]) == (
        0.25,
        True,
        1e-3,
    )
    assert (block["dropout_rate"], block["attention_dropout_rate"]) == (0.1, 0.2)
    assert block["drop_path_rate"] == 0.3
    assert again.get_layer("head").activation is keras.activations.sigmoid


@pytest.mark.parametrize("name", ["plain", "2d_every_layer", "sincos", "relative", "timm"])
def test_spec_is_equal_after_a_file(name, tmp_path):
    model = variant(name).model
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    assert isinstance(loaded, keras_vit.ImageModel)
    assert loaded.spec == model.spec
