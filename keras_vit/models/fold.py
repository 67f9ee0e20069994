"""Weight standardisation done once instead of in every pass."""

import dataclasses
import re

import keras

from keras_vit.layers.std_conv import standardize
from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.image_model import require_spec
from keras_vit.models.rebuild import rebuild
from keras_vit.models.spec import ViTSpec

STANDARDIZED = re.compile(r"(stem_conv|stage_\d+_unit_\d+/conv(\d|_proj))/kernel")


def fold_weight_standardization(model):
    """Builds the model whose convolutions have their kernels standardised for good.

    Its outputs are the same, and the standardisation costs nothing any more: for serving and
    export. Training it is another matter, as its kernels are no longer standardised after a step;
    fine-tune the original.

    Args:
        model: A hybrid or a BiT ResNet, as the builders make it.

    Returns:
        A new model, not compiled, with `spec.folded=True`. The old one is left as it was.

    Raises:
        ValueError: if the model has no standardised convolutions, or other variables than its
            spec describes.

    Example:

    >>> model = keras_vit.BiTResNet(64, num_layers=(1, 1, 1, 1), width=0.5)
    >>> keras_vit.fold_weight_standardization(model).export("serving")
    """
    purpose = "fold_weight_standardization"
    spec = require_spec(model, purpose, families=(ViTSpec, BiTSpec))
    if spec.family == "vit" and spec.resnet is None:
        raise ValueError(
            "Only hybrids and BiT ResNets have standardised convolutions. "
            f"Received: model={model!r}, whose spec has resnet=None"
        )

    def convert(path, value):
        return standardized_kernel(path, value, spec)

    return rebuild(model, dataclasses.replace(spec, folded=True), convert, purpose)


def standardized_kernel(path, value, spec):
    """The value of one variable as a folded model has it.

    Args:
        path: The variable's path.
        value: NumPy array, the variable's value in a model of `spec`.
        spec: The spec of the model that it comes from.
    """
    if spec.folded or not STANDARDIZED.fullmatch(path):
        return value
    standardization = "bit" if spec.family == "bit" else spec.origin
    kernel = standardize(keras.ops.convert_to_tensor(value), standardization)
    return keras.ops.convert_to_numpy(kernel)
