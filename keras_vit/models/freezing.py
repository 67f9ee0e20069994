"""Training a part of a model: frozen layers, and a linear probe of frozen features."""

import dataclasses
import re

from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.image_model import require_spec
from keras_vit.models.rebuild import rebuild
from keras_vit.models.recompile import recompile
from keras_vit.models.spec import RATES, ViTSpec


def freeze(model, keep=r"^head$"):
    """Freezes all layers but some. A compiled model is compiled anew, with a fresh optimizer.

    Without that, layers frozen after a first `fit` would go on training on TensorFlow, and fail on
    JAX. Dropout and stochastic depth of frozen layers stay active; see `linear_probe`.

    Args:
        model: An `ImageModel`.
        keep: Regular expression, or several, searched in each layer's name: those that one of them
            matches are trained. `keep=""` thaws the whole model.

    Returns:
        The same model.

    Raises:
        ValueError: if an expression matches no layer.

    Example:

    >>> keras_vit.freeze(model, keep=["^head$", "^norm$", r"^block_11$"])
    """
    patterns = (keep,) if isinstance(keep, str) else tuple(keep)
    names = [layer.name for layer in model.layers]
    for pattern in patterns:
        if not any(re.search(pattern, name) for name in names):
            raise ValueError(
                "Each expression of `keep` must match a layer's name. "
                f"Received: keep={pattern!r}, which matches none of {names}"
            )
    for layer in model.layers:
        layer.trainable = any(re.search(pattern, layer.name) for pattern in patterns)
    recompile(model)
    return model


def linear_probe(model):
    """A copy of the model that trains nothing but its head, on features as in inference.

    Dropout of every kind and stochastic depth are off, so that the head sees the features that
    it will see when the model is used.

    Args:
        model: An `ImageModel` with a top; it stays as it was.

    Returns:
        A new model with the same weights, not compiled.

    Raises:
        ValueError: if the model has no head, or a hidden layer in it.

    Example:

    >>> probe = keras_vit.linear_probe(keras_vit.ViT_B16(weights="ViT-B_16.npz", classes=37))
    >>> probe.compile(keras_vit.optimizers.SGD(0.03), "sparse_categorical_crossentropy")
    """
    spec = require_spec(model, "linear_probe", families=(ViTSpec, BiTSpec))
    hidden = getattr(spec, "representation_size", None)
    if not spec.include_top or hidden is not None:
        raise ValueError(
            "A linear probe needs a model whose top is one linear layer, built with "
            "`include_top=True, representation_size=None`. Received: "
            f"include_top={spec.include_top}, representation_size={hidden}"
        )
    rates = {name: 0.0 for name in RATES if hasattr(spec, name)}
    probe = rebuild(
        model, dataclasses.replace(spec, **rates), lambda path, value: value, "linear_probe"
    )
    for layer in probe.layers:
        layer.trainable = layer.name == "head"
    return probe
