"""Small models that hold the reference's random weights, for the tests of whole models.

Compare a model with `reference_vit.forward(spec, weights, images)`.
"""

import contextlib
import functools
import gc
import inspect
from typing import NamedTuple

import keras
import numpy as np
from golden_weights import golden_spec
from reference_vit import forward, make_spec, random_images, random_weights, variable_shapes

from keras_vit import VisionTransformer

ARGUMENTS = frozenset(inspect.signature(VisionTransformer).parameters)

# Every pooling, every kind of position with every injection, every option, every origin; images
# wider than high and higher than wide; one, three and four channels; no, one and three tokens
# before the patches. The numbers of tokens are few because JAX compiles each operation for each.
VARIANTS = {
    "plain": {},
    "wide_patches": {
        "patch_size": (8, 10),
        "image_size": (24, 50),
        "channels": 4,
        "activation": "relu",
        "layer_norm_epsilon": 1e-3,
    },
    "learned_every_layer": {
        "position_injection": "every_layer",
        "pooling": "map",
        "class_token": False,
        "num_registers": 1,
        "representation_size": 11,
    },
    "learned_shared": {"position_injection": "shared", "pooling": "max", "num_registers": 2},
    "grid_only_positions": {"class_token_position": False, "include_top": False},
    "2d": {"position_embedding": "learned_2d", "pooling": "map", "norm_after_pool": True},
    "2d_every_layer": {
        "position_embedding": "learned_2d",
        "position_injection": "every_layer",
        "class_token_position": False,
        "num_registers": 2,
        "image_size": (40, 24),
    },
    "2d_shared_tokens": {
        "position_embedding": "learned_2d",
        "position_injection": "shared",
        "include_top": False,
        "pooling": None,
        "class_token": False,
        "num_registers": 1,
    },
    "sincos": {
        "position_embedding": "sincos2d",
        "include_top": False,
        "pooling": "avg",
        "class_token": False,
        "norm_after_pool": True,
    },
    "sincos_every_layer": {
        "position_embedding": "sincos2d",
        "position_injection": "every_layer",
        "channels": 1,
    },
    "sincos_shared": {
        "position_embedding": "sincos2d",
        "position_injection": "shared",
        "pooling": "max",
        "class_token": False,
        "image_size": (40, 24),
    },
    "relative": {"position_embedding": "relative", "num_registers": 2, "qk_norm": True},
    "relative_patches": {
        "position_embedding": "relative",
        "pooling": "avg",
        "class_token": False,
        "image_size": (40, 24),
    },
    "timm": {
        "origin": "timm",
        "num_registers": 2,
        "class_token_position": False,
        "layer_scale": 0.1,
        "qk_norm": True,
    },
    "huggingface": {"origin": "huggingface", "position_embedding": "none"},
    "map_without_top": {"include_top": False, "pooling": "map", "class_token": False},
    # Inference must not see the rates.
    "rates": {
        "dropout_rate": 0.4,
        "attention_dropout_rate": 0.5,
        "drop_path_rate": 0.6,
        "patch_dropout_rate": 0.7,
    },
}


class Small(NamedTuple):
    model: keras.Model
    spec: dict  # fields as in `reference_vit.make_spec`
    weights: dict  # {path: array}, what the model holds
    images: np.ndarray  # two


def build(input_tensor=None, name=None, seed=0, dtype=None, **fields):
    """A new model of `reference_vit.SMALL` with `fields` changed, holding random weights."""
    spec = make_spec(**fields)
    arguments = {key: value for key, value in spec.items() if key in ARGUMENTS}
    # What a user leaves out, the builder must find by itself.
    for key in ("activation", "layer_norm_epsilon"):
        if key not in fields:
            del arguments[key]
    arguments.update(input_tensor=input_tensor, name=name, dtype=dtype)
    model = VisionTransformer(**arguments)
    weights = random_weights(spec, seed)
    assert shapes(model) == variable_shapes(spec)
    assign(model, weights)
    return Small(model, spec, weights, random_images(spec, seed + 1))


def golden_model(name, **fields):
    """The model of one of VIT_GOLDENS with `fields` changed, of logits, without its weights."""
    spec = {**golden_spec(name), "classifier_activation": None, **fields}
    return VisionTransformer(**{key: value for key, value in spec.items() if key in ARGUMENTS})


@functools.cache
def variant(name):
    """One of VARIANTS, built once for all tests: leave it as it is."""
    return build(**VARIANTS[name])


def expected(small, images=None):
    """What the reference computes; see `reference_vit.forward`."""
    return forward(small.spec, small.weights, small.images if images is None else images)


def expected_output(small, images=None):
    """What the whole model must return."""
    result = expected(small, images)
    return next(
        value
        for value in (result["logits"], result["pooled"], result["encoded"])
        if value is not None
    )


def shapes(model):
    return {variable.path: tuple(variable.shape) for variable in model.weights}


def values(model):
    """{path: float array} of all weights, copied."""
    return {variable.path: np.array(numpy(variable)) for variable in model.weights}


def assign(model, weights):
    for variable in model.weights:
        variable.assign(weights[variable.path])


def numpy(tensor):
    return keras.ops.convert_to_numpy(tensor)


def call(model, images):
    return numpy(model(images, training=False))


def relative_error(actual, wanted):
    """The largest difference, relative to the largest number wanted."""
    assert actual.shape == wanted.shape
    return np.abs(np.asarray(actual, np.float64) - wanted).max() / np.abs(wanted).max()


def assert_close(actual, wanted, tolerance=2e-5):
    assert relative_error(actual, wanted) < tolerance


def assert_equal(actual, wanted):
    """Of two {path: array}: bit for bit."""
    assert actual.keys() == wanted.keys()
    for path, value in wanted.items():
        np.testing.assert_array_equal(actual[path], value, err_msg=path)


@contextlib.contextmanager
def quick_quantisation():
    """Keras collects garbage for each layer that it quantises: let it not search all of Python."""
    gc.freeze()
    yield
    gc.unfreeze()
