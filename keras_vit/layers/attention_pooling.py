"""Pooling of tokens by attention: the MAP head."""

import keras
from keras import ops

from keras_vit.layers import checks
from keras_vit.layers.attention import MultiHeadAttention
from keras_vit.layers.base import Layer
from keras_vit.layers.layer_norm import LayerNorm
from keras_vit.layers.mlp import MLP


@keras.saving.register_keras_serializable(package="keras_vit")
class AttentionPooling(Layer):
    """Multi-head attention pooling, MAP (arXiv 2106.04560, section 3.3).

    A learned probe attends to all tokens, prefix tokens too; h + MLP(LN(h)) follows.

    Args:
        num_heads: Integer h.
        mlp_dim: Integer M.
        activation: Name of the MLP's activation, see `MLP`.
        layer_norm_epsilon: Float.

    Call arguments:
        tokens: Float tensor `(B, N, D)`.

    Returns:
        Float tensor `(B, D)`.
    """

    def __init__(
        self, num_heads, mlp_dim, activation="gelu_tanh", layer_norm_epsilon=1e-6, **kwargs
    ):
        super().__init__(**kwargs)
        self.num_heads = checks.positive_integer(num_heads, "num_heads")
        self.mlp_dim = checks.positive_integer(mlp_dim, "mlp_dim")
        self.activation = activation
        self.layer_norm_epsilon = checks.positive_number(layer_norm_epsilon, "layer_norm_epsilon")
        self.attention = MultiHeadAttention(num_heads, name="attention", dtype=self.dtype_policy)
        self.norm = LayerNorm(self.layer_norm_epsilon, name="norm", dtype=self.dtype_policy)
        self.mlp = MLP(mlp_dim, activation=activation, name="mlp", dtype=self.dtype_policy)

    def build(self, input_shape):
        self.probe = self.add_weight(
            name="probe", shape=(1, 1, input_shape[-1]), initializer="glorot_uniform"
        )
        probe_shape = (input_shape[0], 1, input_shape[-1])
        self.attention.build(probe_shape, input_shape)
        self.norm.build(probe_shape)
        self.mlp.build(probe_shape)

    def call(self, tokens, training=None):
        hidden = self.attention(self._probe(tokens), tokens, training=training)  # (B, 1, D)
        hidden = hidden + self.mlp(self.norm(hidden), training=training)
        return hidden[:, 0]

    def attention_weights(self, tokens):
        """The attention probabilities `(B, h, 1, N)` of the probe."""
        return self.attention.attention_weights(self._probe(tokens), tokens)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[2])

    def _probe(self, tokens):
        shape = (ops.shape(tokens)[0], 1, self.probe.shape[-1])
        return ops.broadcast_to(ops.cast(self.probe, tokens.dtype), shape)
