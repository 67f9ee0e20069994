"""Pixels of 0..255 to the range that a checkpoint was trained with."""

import keras
from keras import ops

from keras_vit.layers import checks
from keras_vit.layers.base import Layer


@keras.saving.register_keras_serializable(package="keras_vit")
class PixelNormalization(Layer):
    """(x / 255 - mean) / std, in float32 whatever the policy.

    Args:
        mean: Sequence of floats, one a channel, or one for all; on the scale of 0 to 1.
        std: As `mean`.

    Call arguments:
        images: Tensor `(B, H, W, C)` of 0 to 255, integers or floats.

    Returns:
        Tensor of the same shape in the layer's compute dtype.
    """

    def __init__(self, mean, std, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.mean = _channel_values(mean, "mean", checks.number)
        self.std = _channel_values(std, "std", checks.positive_number)
        if len({1, len(self.mean), len(self.std)}) > 2:
            raise ValueError(
                "`mean` and `std` must have one value, or one for each channel. "
                f"Received: mean={mean!r}, std={std!r}"
            )

    def build(self, input_shape):
        channels = max(len(self.mean), len(self.std))
        if channels > 1 and input_shape[-1] != channels:
            raise ValueError(
                f"`mean` and `std` are for {channels} channels. "
                f"Received: shape={tuple(input_shape)}"
            )

    def call(self, images):
        images = ops.cast(images, "float32")
        images = (images / 255.0 - ops.array(self.mean, "float32")) / ops.array(self.std, "float32")
        return ops.cast(images, self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return input_shape


def _channel_values(values, name, check):
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__") or not len(values):
        raise ValueError(f"`{name}` must be a sequence of numbers. Received: {name}={values!r}")
    return tuple(check(value, name) for value in values)
