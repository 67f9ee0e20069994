"""Layer scale: a learned factor a channel on a residual branch."""

import keras

from keras_vit.layers import checks
from keras_vit.layers.base import Layer


@keras.saving.register_keras_serializable(package="keras_vit")
class LayerScale(Layer):
    """Multiplies each channel by a learned factor (arXiv 2103.17239, CaiT).

    Args:
        initial_value: Float, what every factor is at first.

    Call arguments:
        tokens: Float tensor `(B, N, D)`.

    Returns:
        Tokens of the same shape.
    """

    def __init__(self, initial_value, **kwargs):
        super().__init__(**kwargs)
        self.initial_value = checks.number(initial_value, "initial_value")

    def build(self, input_shape):
        self.gamma = self.add_weight(
            name="gamma",
            shape=(input_shape[-1],),
            initializer=keras.initializers.Constant(self.initial_value),
        )

    def call(self, tokens):
        return tokens * self.gamma

    def compute_output_shape(self, input_shape):
        return input_shape
