"""Max pooling that pads with minus infinity."""

import keras

from keras_vit.layers import checks
from keras_vit.layers.base import Layer
from keras_vit.layers.padding import PADDINGS, image_pads, num_windows
from keras_vit.layers.platform import max_pool, padded


@keras.saving.register_keras_serializable(package="keras_vit")
class MaxPooling(Layer):
    """Takes the maximum of every window; the border never wins, whatever the sign of the image.

    Args:
        pool_size: Integer or `(height, width)`, odd.
        strides: Integer or `(height, width)`.
        padding: `"same"`, TensorFlow's at every size, or `"symmetric"`, half the window on each
            side.

    Call arguments:
        images: Float tensor `(B, H, W, C)`.

    Returns:
        Float tensor `(B, ceil(H / stride), ceil(W / stride), C)`.
    """

    def __init__(self, pool_size=3, strides=2, padding="same", **kwargs):
        super().__init__(**kwargs)
        self.pool_size = checks.odd_pair(pool_size, "pool_size")
        self.strides = checks.pair(strides, "strides")
        self.padding = checks.one_of(padding, "padding", PADDINGS)

    def call(self, images):
        border = image_pads(images, self.pool_size, self.strides, self.padding)
        images = padded(images, border, value=float("-inf"))
        return max_pool(images, self.pool_size, self.strides)

    def compute_output_shape(self, input_shape):
        batch, height, width, channels = checks.image_shape(input_shape)
        rows, columns = self.strides
        return (batch, num_windows(height, rows), num_windows(width, columns), channels)
