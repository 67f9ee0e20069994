"""Register tokens: learned tokens that give the network scratch space."""

import keras

from keras_vit.layers import checks
from keras_vit.layers.base import Layer
from keras_vit.layers.class_token import prepend


@keras.saving.register_keras_serializable(package="keras_vit")
class RegisterTokens(Layer):
    """Prepends learned tokens that no head reads (arXiv 2309.16588, section 2.2).

    Args:
        num_tokens: Integer R, how many.

    Call arguments:
        tokens: Float tensor `(B, N, D)`, the patches.

    Returns:
        Tokens `(B, R + N, D)`. A class token is put before them afterwards.
    """

    def __init__(self, num_tokens, **kwargs):
        super().__init__(**kwargs)
        self.num_tokens = checks.positive_integer(num_tokens, "num_tokens")

    def build(self, input_shape):
        _, _, hidden_dim = checks.token_shape(input_shape)
        # Equal tokens would stay equal for ever, so they cannot start at zero as the class token.
        self.tokens = self.add_weight(
            name="tokens",
            shape=(1, self.num_tokens, hidden_dim),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
        )

    def call(self, tokens):
        return prepend(self.tokens, tokens)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[1] + self.num_tokens, input_shape[2])
