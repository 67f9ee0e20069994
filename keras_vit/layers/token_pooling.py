"""Pooling of tokens to one vector: the class token, the mean or the maximum of the patches."""

import keras
from keras import ops

from keras_vit.layers import checks
from keras_vit.layers.base import Layer

MODES = ("token", "avg", "max")


@keras.saving.register_keras_serializable(package="keras_vit")
class TokenPooling(Layer):
    """Reduces tokens to one vector an image.

    Args:
        mode: `"token"` takes the first token (arXiv 2010.11929, equation 4); `"avg"` and `"max"`
            reduce the patches and leave the prefix tokens out.
        prefix_tokens: Integer, how many tokens come before the patches.

    Call arguments:
        tokens: Float tensor `(B, N, D)`.

    Returns:
        Float tensor `(B, D)`.
    """

    def __init__(self, mode, prefix_tokens=0, **kwargs):
        super().__init__(**kwargs)
        self.mode = checks.one_of(mode, "mode", MODES)
        self.prefix_tokens = checks.positive_integer(prefix_tokens, "prefix_tokens", minimum=0)

    def build(self, input_shape):
        _, number, _ = checks.token_shape(input_shape)
        if self.mode != "token" and number is not None and number <= self.prefix_tokens:
            raise ValueError(
                "There are no patches after the prefix tokens. "
                f"Received: shape={tuple(input_shape)}, prefix_tokens={self.prefix_tokens}"
            )

    def call(self, tokens):
        if self.mode == "token":
            return tokens[:, 0]
        patches = tokens[:, self.prefix_tokens :]
        return ops.mean(patches, axis=1) if self.mode == "avg" else ops.max(patches, axis=1)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[2])
