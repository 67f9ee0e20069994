"""Pixels as a model takes them."""

import sys

import keras
import numpy as np

from keras_vit.applications.facts import DEFAULT, facts_of
from keras_vit.layers import checks


def preprocess_input(x, model_or_weights=None, value_range=(0, 255)):
    """Scales pixels to the range that a model was trained with: `(x / 255 - mean) / std`.

    What the pixels are is said by their dtype and by `value_range`; their content is never looked
    at. Images keep their size. For a model with `include_preprocessing=True`, which scales by
    itself, pixels become floats of 0 to 255.

    Args:
        x: Image `(H, W, C)` or images `(B, H, W, C)`: a NumPy array, a tensor of the backend, a
            Keras tensor, or a TensorFlow tensor on any backend, also in `tf.data.Dataset.map`.
            uint8 is 0 to 255, whatever `value_range` says; other integers are refused.
        model_or_weights: A model, or the name of published weights such as `"ViT_B16/imagenet"`.
            None is the range of the paper's code, [-1, 1].
        value_range: `(lowest, highest)` of float pixels: of black and of white.

    Returns:
        float32 of the shape and kind of `x`, never `x` itself.

    Raises:
        ValueError: if dtype, shape or channels are none that the model takes.

    Example:

    >>> model = keras_vit.ViT_B16(weights="imagenet")
    >>> x = keras_vit.preprocess_input(photo, model)  # uint8
    >>> x = keras_vit.preprocess_input(photo / 255.0, model, value_range=(0, 1))
    """
    facts = None if model_or_weights is None else facts_of(model_or_weights)
    low, high = _checked_range(value_range)
    x, cast, constant = _with_operations(x)
    if _checked_dtype(x) == "uint8":
        low, high = 0.0, 255.0
    _check_shape(x, facts)
    x = cast(x)
    if getattr(facts, "include_preprocessing", False):
        return (x - low) * (255.0 / (high - low))
    scale = DEFAULT if facts is None else facts.preprocessing
    return ((x - low) / (high - low) - constant(scale.mean)) / constant(scale.std)


def _checked_range(value_range):
    values = value_range if isinstance(value_range, (tuple, list)) else ()
    if len(values) != 2 or not all(isinstance(value, (int, float)) for value in values):
        raise ValueError(
            "`value_range` must be two numbers, `(lowest, highest)`. "
            f"Received: value_range={value_range!r}"
        )
    low, high = (checks.number(value, "value_range") for value in values)
    if not low < high:
        raise ValueError(
            f"`value_range` must grow from its first to its second number, also where white is the "
            f"lower one: invert the image first. Received: value_range={value_range!r}"
        )
    return low, high


def _with_operations(x):
    """`x` as an array or tensor, with a cast to float32 and a maker of constants for its kind."""
    if keras.ops.is_tensor(x) or isinstance(x, keras.KerasTensor):
        return x, lambda x: keras.ops.cast(x, "float32"), keras.ops.convert_to_tensor
    if type(x).__module__.startswith("tensorflow."):
        # A step of tf.data on another backend. TensorFlow is there, or `x` would not be.
        return x, lambda x: sys.modules["tensorflow"].cast(x, "float32"), _float32
    return np.asarray(x), lambda x: x.astype("float32"), _float32


def _float32(values):
    return np.asarray(values, "float32")


def _checked_dtype(x):
    name = str(getattr(x.dtype, "name", x.dtype)).removeprefix("torch.")
    if name == "uint8" or name.startswith(("float", "bfloat")):
        return name
    advice = "cast them to uint8 if they are 0 to 255, or to float32 and say their `value_range`"
    raise ValueError(
        f"Pixels must be uint8, or floats with their `value_range`. Received: dtype={name}. "
        f"For other integers, {advice}."
    )


def _check_shape(x, facts):
    shape = tuple(x.shape) if getattr(x.shape, "rank", 0) is not None else None
    if shape is not None and len(shape) not in (3, 4):
        raise ValueError(
            f"Images must be `(H, W, C)` or `(B, H, W, C)`, channels last. Received: shape={shape}"
        )
    # The images of published weights have three.
    wanted = None if facts is None else getattr(facts, "channels", 3)
    if shape is not None and wanted is not None and shape[-1] not in (None, wanted):
        raise ValueError(
            f"Images must have {wanted} channels, in the last axis. Received: shape={shape}"
        )
