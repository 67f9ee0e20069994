"""The class token: one learned token put before the others."""

import keras
from keras import ops

from keras_vit.layers import checks
from keras_vit.layers.base import Layer


@keras.saving.register_keras_serializable(package="keras_vit")
class ClassToken(Layer):
    """Prepends one learned token, the x_class of equation 1 (arXiv 2010.11929), zero at first.

    Call arguments:
        tokens: Float tensor `(B, N, D)`.

    Returns:
        Tokens `(B, 1 + N, D)`.
    """

    def build(self, input_shape):
        _, _, hidden_dim = checks.token_shape(input_shape)
        self.token = self.add_weight(name="token", shape=(1, 1, hidden_dim), initializer="zeros")

    def call(self, tokens):
        return prepend(self.token, tokens)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[1] + 1, input_shape[2])


def prepend(learned, tokens):
    """`learned` `(1, P, D)`, repeated over the batch, before `tokens` `(B, N, D)`."""
    batch = ops.shape(tokens)[0]
    learned = ops.broadcast_to(
        ops.cast(learned, tokens.dtype), (batch, learned.shape[1], learned.shape[2])
    )
    return ops.concatenate([learned, tokens], axis=1)
