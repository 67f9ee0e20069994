"""Small hybrids and BiT ResNets that hold random weights, for the tests of whole models."""

import zlib

import keras
import numpy as np
import small_models
from reference_vit import make_spec
from small_models import assign

from keras_vit import BiTResNet, VisionTransformer

HYBRID = {
    "image_size": (34, 41),
    "patch_size": (1, 1),
    "num_layers": 1,
    "num_heads": 3,
    "hidden_dim": 24,
    "mlp_dim": 40,
    "classes": 5,
    "resnet": (1, 2),
    "resnet_width": 0.5,
}
BIT = {"image_size": (34, 41), "num_layers": (1, 2), "width": 0.5, "classes": 5}


def random_weights(model, seed=0):
    """{path: float32 array}: factors near one, all others well spread around zero."""
    weights = {}
    for variable in model.weights:
        rng = np.random.default_rng([seed, zlib.crc32(variable.path.encode())])
        mean = 1.0 if variable.path.endswith("/gamma") else 0.0
        values = mean + 0.2 * rng.normal(size=tuple(variable.shape))
        weights[variable.path] = values.astype("float32")
    return weights


def random_images(model, batch=2):
    shape = (batch, *model.input_shape[1:])
    return np.random.default_rng(3).uniform(-1, 1, shape).astype("float32")


def hybrid(**fields):
    """(model, spec as `reference_vit.make_spec` has it, weights), of HYBRID with changes."""
    arguments = {"classifier_activation": None, **HYBRID, **fields}
    model = VisionTransformer(**arguments)
    weights = random_weights(model)
    assign(model, weights)
    known = {key: value for key, value in arguments.items() if key in make_spec()}
    return model, make_spec(**known), weights


def bit(**fields):
    """(model, weights), of BIT with changes."""
    model = BiTResNet(**{"classifier_activation": None, **BIT, **fields})
    weights = random_weights(model)
    assign(model, weights)
    return model, weights


def call(model, images):
    """What a model gives for images, as an array or a list of them.

    Compiled on JAX, which otherwise compiles every operation of every shape by itself.
    """
    if keras.backend.backend() == "jax":
        return model.predict(images, verbose=0)
    return keras.tree.map_structure(small_models.numpy, model(images, training=False))


def outputs_of(model, layers, images):
    """What the layers of these names give for images, as arrays."""
    parts = keras.Model(model.input, [model.get_layer(name).output for name in layers])
    return keras.tree.flatten(call(parts, images))


def trained(model, steps=1, **compiled):
    """The values before and after training steps on random images, {path: (before, after)}."""
    images = random_images(model, batch=4)
    model.compile(keras.optimizers.SGD(0.1), **{"loss": "mse", **compiled})
    before = small_models.values(model)
    targets = np.ones((4, *model.output_shape[1:]), "float32")
    history = model.fit(images, targets, batch_size=4, epochs=steps, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    after = small_models.values(model)
    return {path: (before[path], after[path]) for path in before}
