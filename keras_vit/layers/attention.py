"""Multi-head attention with separate query, key and value kernels."""

import math

import keras
from keras import ops

from keras_vit.layers import checks, initial_values
from keras_vit.layers.base import Layer
from keras_vit.layers.layer_norm import LayerNorm
from keras_vit.layers.platform import attention, projected, tensorflow_or_jax_on_a_cpu
from keras_vit.layers.relative_position import RelativePosition
from keras_vit.layers.seeds import resolve_seed


@keras.saving.register_keras_serializable(package="keras_vit")
class MultiHeadAttention(Layer):
    """Multi-head attention (arXiv 2010.11929, appendix A): softmax(q k^T / sqrt(d)) v.

    Kernels of query, key and value are `(D, h, d)`, that of the output `(h, d, D)`, as in the
    paper's checkpoints. Without dropout to apply, the products run as one fused operation of the
    backend; the probabilities are only formed where `attention_weights` is called for them.

    Args:
        num_heads: Integer h; it divides the width D.
        qk_norm: Whether queries and keys pass a layer norm over the d of each head.
        layer_norm_epsilon: Float, of those norms.
        dropout_rate: Float, dropout on the attention probabilities.
        relative_grid: None, or `(rows, columns)` of patches: adds `RelativePosition` logits.
        prefix_tokens: Integer, the tokens before the patches; for `relative_grid`.
        seed: Integer seed of the dropout, or None.

    Call arguments:
        query: Float tensor `(B, N, D)`.
        value: Float tensor `(B, M, D)` that keys and values are made of; None is `query`.
        training: Whether dropout acts.

    Returns:
        Float tensor `(B, N, D)`.
    """

    def __init__(
        self,
        num_heads,
        qk_norm=False,
        layer_norm_epsilon=1e-6,
        dropout_rate=0.0,
        relative_grid=None,
        prefix_tokens=0,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = checks.positive_integer(num_heads, "num_heads")
        self.qk_norm = checks.boolean(qk_norm, "qk_norm")
        self.layer_norm_epsilon = checks.positive_number(layer_norm_epsilon, "layer_norm_epsilon")
        self.dropout_rate = checks.rate(dropout_rate, "dropout_rate")
        self.relative_grid = relative_grid
        if relative_grid is not None:
            self.relative_grid = checks.pair(relative_grid, "relative_grid")
        self.prefix_tokens = checks.positive_integer(prefix_tokens, "prefix_tokens", minimum=0)
        self.seed = resolve_seed(seed)

    def build(self, query_shape, value_shape=None):
        hidden_dim = query_shape[-1]
        head_dim = checks.head_width(hidden_dim, self.num_heads)
        self._scale = 1.0 / math.sqrt(head_dim)
        heads = (self.num_heads, head_dim)
        self.query = self._projection("query", "bnd,dhk->bnhk", heads, "hk", query_shape)
        self.key = self._projection("key", "bnd,dhk->bnhk", heads, "hk", value_shape or query_shape)
        self.value = self._projection(
            "value", "bnd,dhk->bnhk", heads, "hk", value_shape or query_shape
        )
        heads_shape = (*query_shape[:-1], *heads)
        self.output_projection = self._projection(
            "output", "bnhk,hkd->bnd", (hidden_dim,), "d", heads_shape
        )
        self.query_norm = self._head_norm("query_norm", heads_shape)
        self.key_norm = self._head_norm("key_norm", heads_shape)
        self.relative_position = self._relative_position(heads_shape)
        self.dropout = None
        if self.dropout_rate:
            self.dropout = keras.layers.Dropout(
                self.dropout_rate, seed=self.seed, dtype=self.dtype_policy
            )

    def call(self, query, value=None, training=None):
        query, key, value, bias = self._heads(query, value)
        drops = self.dropout is not None and training
        if drops or tensorflow_or_jax_on_a_cpu():
            heads = self._explicit_attention(query, key, value, bias, drops)
        else:
            heads = attention(query, key, value, bias)
        return projected(self.output_projection, heads, axes=2)

    def attention_weights(self, query, value=None):
        """The attention probabilities, without dropout.

        Args:
            query: Float tensor `(B, N, D)`.
            value: Float tensor `(B, M, D)`; None is `query`.

        Returns:
            Float tensor `(B, h, N, M)`; each query's row sums to 1. float32 for 16-bit policies.
        """
        query, key, _, bias = self._heads(query, value)
        return ops.softmax(self._logits(query, key, bias), axis=-1)

    def compute_output_shape(self, query_shape, value_shape=None):
        return query_shape

    def _heads(self, query, value):
        """Scaled queries, keys and values `(B, N, h, d)`, and the relative logits or None."""
        value = query if value is None else value
        query, key, value = (
            projected(self.query, query),
            projected(self.key, value),
            projected(self.value, value),
        )
        if self.qk_norm:
            query, key = self.query_norm(query), self.key_norm(key)
        query = query * self._scale
        bias = None if self.relative_position is None else self.relative_position(query)
        return query, key, value, bias

    def _explicit_attention(self, query, key, value, bias, drops):
        logits = self._logits(query, key, bias)  # (B, h, N, M)
        value = ops.transpose(value, (0, 2, 1, 3))  # (B, h, M, d)
        # In float16 a sum over many keys could overflow before it is divided.
        if drops or self.compute_dtype in ("float16", "bfloat16"):
            weights = ops.cast(ops.softmax(logits, axis=-1), self.compute_dtype)
            if drops:
                weights = self.dropout(weights, training=True)
            heads = ops.matmul(weights, value)
        else:
            heads = _means(value, logits)
        return ops.transpose(heads, (0, 2, 1, 3))

    def _logits(self, query, key, bias):
        logits = ops.matmul(ops.transpose(query, (0, 2, 1, 3)), ops.transpose(key, (0, 2, 3, 1)))
        if bias is not None:
            logits = logits + bias
        # In 16 bits neither the largest logits nor a sum over many keys keeps its digits.
        if keras.backend.standardize_dtype(logits.dtype) in ("float16", "bfloat16"):
            logits = ops.cast(logits, "float32")
        return logits

    def _projection(self, name, equation, output_shape, bias_axes, input_shape):
        # Keras takes the fans from the equation, so that the kernel is initialised as the
        # (D, h * d) matrix that it is, not as a convolution with D places.
        projection = keras.layers.EinsumDense(
            equation,
            output_shape=(None, *output_shape),
            bias_axes=bias_axes,
            kernel_initializer="glorot_uniform",
            name=name,
            dtype=self.dtype_policy,
        )
        initial_values.build(projection, input_shape)
        return projection

    def _head_norm(self, name, heads_shape):
        if not self.qk_norm:
            return None
        norm = LayerNorm(self.layer_norm_epsilon, name=name, dtype=self.dtype_policy)
        norm.build(heads_shape)
        return norm

    def _relative_position(self, heads_shape):
        if self.relative_grid is None:
            return None
        relative_position = RelativePosition(
            self.relative_grid,
            self.prefix_tokens,
            name="relative_position",
            dtype=self.dtype_policy,
        )
        relative_position.build(heads_shape)
        return relative_position


def _means(value, logits):
    """softmax(logits) value, divided by the sum of the softmax after the product.

    What is divided, and what gradients sum over, are then the d numbers of a head for each query
    and not its M keys: a twentieth of a training step of ViT-S/16 in JAX on a CPU.
    """
    largest = ops.stop_gradient(ops.max(logits, axis=-1, keepdims=True))
    weights = ops.exp(logits - largest)
    return ops.matmul(weights, value) / ops.sum(weights, axis=-1, keepdims=True)
