"""The pre-norm Transformer encoder block."""

import keras

from keras_vit.layers import checks
from keras_vit.layers.attention import MultiHeadAttention
from keras_vit.layers.base import Layer
from keras_vit.layers.layer_norm import LayerNorm
from keras_vit.layers.layer_scale import LayerScale
from keras_vit.layers.mlp import MLP
from keras_vit.layers.platform import call_part, computed_once
from keras_vit.layers.rematerialize import rematerialized
from keras_vit.layers.seeds import resolve_seed


@keras.saving.register_keras_serializable(package="keras_vit")
class EncoderBlock(Layer):
    """One Transformer encoder block (arXiv 2010.11929, equations 2 and 3).

    Args:
        num_heads: Integer h.
        mlp_dim: Integer M, the hidden width of the MLP.
        activation: Name of the MLP's activation, see `MLP`.
        layer_norm_epsilon: Float.
        dropout_rate: Float, after the attention's output and in the MLP.
        attention_dropout_rate: Float, on the attention probabilities.
        drop_path_rate: Float, the chance that a sample skips a residual branch in training.
        layer_scale: None, or the float that the factors of both branches start from.
        qk_norm: Whether queries and keys are normalised, see `MultiHeadAttention`.
        relative_grid: None, or the grid of relative positions, see `MultiHeadAttention`.
        prefix_tokens: Integer, tokens before the patches; for `relative_grid`.
        seed: Integer from which the seeds of all random parts are made, or None.

    Call arguments:
        tokens: Float tensor `(B, N, D)`.
        num_queries: None, or an integer Q: only the first Q tokens are computed. All N are still
            attended to.
        training: Whether dropout and stochastic depth act.

    Returns:
        Tokens `(B, N, D)` or `(B, Q, D)`.

    Raises:
        ValueError: if `num_queries` is not from 1 to N.
    """

    def __init__(
        self,
        num_heads,
        mlp_dim,
        activation="gelu_tanh",
        layer_norm_epsilon=1e-6,
        dropout_rate=0.0,
        attention_dropout_rate=0.0,
        drop_path_rate=0.0,
        layer_scale=None,
        qk_norm=False,
        relative_grid=None,
        prefix_tokens=0,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = checks.positive_integer(num_heads, "num_heads")
        self.mlp_dim = checks.positive_integer(mlp_dim, "mlp_dim")
        self.activation = activation
        self.layer_norm_epsilon = checks.positive_number(layer_norm_epsilon, "layer_norm_epsilon")
        self.dropout_rate = checks.rate(dropout_rate, "dropout_rate")
        self.attention_dropout_rate = checks.rate(attention_dropout_rate, "attention_dropout_rate")
        self.drop_path_rate = checks.rate(drop_path_rate, "drop_path_rate")
        self.layer_scale = layer_scale
        if layer_scale is not None:
            self.layer_scale = checks.number(layer_scale, "layer_scale")
        self.qk_norm = qk_norm
        self.relative_grid = relative_grid
        self.prefix_tokens = prefix_tokens
        self.seed = resolve_seed(seed)
        self.rematerialize = False  # no part of the architecture; see `keras_vit.rematerialize`
        self.attention = MultiHeadAttention(
            num_heads,
            qk_norm=qk_norm,
            layer_norm_epsilon=layer_norm_epsilon,
            dropout_rate=attention_dropout_rate,
            relative_grid=relative_grid,
            prefix_tokens=prefix_tokens,
            seed=self.seed,
            name="attention",
            dtype=self.dtype_policy,
        )
        self.mlp = MLP(
            mlp_dim,
            activation=activation,
            dropout_rate=dropout_rate,
            seed=self.seed + 1,  # and + 2
            name="mlp",
            dtype=self.dtype_policy,
        )
        self.attention_norm = self._norm("attention_norm")
        self.mlp_norm = self._norm("mlp_norm")
        self.attention_scale = self._layer_scale("attention_scale")
        self.mlp_scale = self._layer_scale("mlp_scale")
        self.attention_dropout = self._dropout(dropout_rate, self.seed + 3)
        self.attention_drop_path = self._dropout(drop_path_rate, self.seed + 4, (None, 1, 1))
        self.mlp_drop_path = self._dropout(drop_path_rate, self.seed + 5, (None, 1, 1))

    def build(self, input_shape):
        for layer in (
            self.attention_norm,
            self.attention,
            self.attention_scale,
            self.mlp_norm,
            self.mlp,
            self.mlp_scale,
        ):
            if layer is not None:
                layer.build(input_shape)

    def call(self, tokens, num_queries=None, training=None):
        _check_queries(num_queries, tokens.shape[1])

        def forward(tokens):
            return self._forward(tokens, num_queries, training)

        if self.rematerialize and training:
            return rematerialized(self, forward, tokens)
        return forward(tokens)

    def _forward(self, tokens, num_queries, training):
        branch = self._attention_branch(tokens, num_queries, training)
        tokens = _first(tokens, num_queries) + branch
        tokens = tokens + self._mlp_branch(tokens, training)
        return computed_once(tokens, self.mlp_norm.gamma) if training else tokens

    def attention_weights(self, tokens):
        """The attention probabilities `(B, h, N, N)` that this block has for its input tokens."""
        return self.attention.attention_weights(self.attention_norm(tokens))

    def compute_output_shape(self, input_shape, num_queries=None):
        return (input_shape[0], num_queries or input_shape[1], input_shape[2])

    def compute_output_spec(self, tokens, num_queries=None, training=None):
        _check_queries(num_queries, tokens.shape[1])
        shape = self.compute_output_shape(tokens.shape, num_queries)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def _attention_branch(self, tokens, num_queries, training):
        tokens = call_part(self, self.attention_norm, tokens)
        queries = _first(tokens, num_queries)
        branch = call_part(self, self.attention, queries, tokens, training=training)
        for layer in (self.attention_dropout, self.attention_scale, self.attention_drop_path):
            branch = self._apply(layer, branch, training)
        return branch

    def _mlp_branch(self, tokens, training):
        tokens = call_part(self, self.mlp_norm, tokens)
        branch = call_part(self, self.mlp, tokens, training=training)
        for layer in (self.mlp_scale, self.mlp_drop_path):
            branch = self._apply(layer, branch, training)
        return branch

    def _apply(self, layer, tokens, training):
        if layer is None:
            return tokens
        arguments = {"training": training} if isinstance(layer, keras.layers.Dropout) else {}
        return call_part(self, layer, tokens, **arguments)

    def _norm(self, name):
        return LayerNorm(self.layer_norm_epsilon, name=name, dtype=self.dtype_policy)

    def _layer_scale(self, name):
        if self.layer_scale is None:
            return None
        return LayerScale(self.layer_scale, name=name, dtype=self.dtype_policy)

    def _dropout(self, rate, seed, noise_shape=None):
        # Dropout that shares one draw over a sample's tokens and channels is stochastic depth.
        if not rate:
            return None
        return keras.layers.Dropout(
            rate, noise_shape=noise_shape, seed=seed, dtype=self.dtype_policy
        )


def _check_queries(number, num_tokens):
    if number is None:
        return
    checks.positive_integer(number, "num_queries")
    if num_tokens is not None and number > num_tokens:
        raise ValueError(
            f"`num_queries` must be at most the number of tokens, {num_tokens}. "
            f"Received: num_queries={number}"
        )


def _first(tokens, number):
    return tokens if number is None else tokens[:, :number]
