"""Pixels of 0..255 to the range that a checkpoint was trained with."""

import keras
from keras import ops

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
        self.mean = tuple(float(value) for value in mean)
        self.std = tuple(float(value) for value in std)

    def call(self, images):
        images = ops.cast(images, "float32")
        images = (images / 255.0 - ops.array(self.mean, "float32")) / ops.array(self.std, "float32")
        return ops.cast(images, self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return input_shape
