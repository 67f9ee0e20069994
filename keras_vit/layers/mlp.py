"""The two-layer perceptron of an encoder block."""

import keras

from keras_vit.layers import checks, initial_values
from keras_vit.layers.activations import activation_function
from keras_vit.layers.base import Layer
from keras_vit.layers.platform import projected
from keras_vit.layers.seeds import resolve_seed


@keras.saving.register_keras_serializable(package="keras_vit")
class MLP(Layer):
    """Dense, activation, dropout, dense, dropout (arXiv 2010.11929, section 3.1 and appendix A).

    Args:
        mlp_dim: Integer M, the hidden width.
        activation: `"gelu_tanh"` (the paper's code), `"gelu"` (exact) or a name that Keras knows.
        dropout_rate: Float, after the activation and after the second dense layer.
        seed: Integer seed of the dropout, or None.

    Call arguments:
        tokens: Float tensor `(..., D)`.
        training: Whether dropout acts.

    Returns:
        Tokens of the same shape.
    """

    def __init__(self, mlp_dim, activation="gelu_tanh", dropout_rate=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.mlp_dim = checks.positive_integer(mlp_dim, "mlp_dim")
        self.activation = activation
        self.dropout_rate = checks.rate(dropout_rate, "dropout_rate")
        self.seed = resolve_seed(seed)
        self._activate = activation_function(activation)

    def build(self, input_shape):
        self.hidden = self._dense(self.mlp_dim, "hidden", input_shape)
        hidden_shape = (*input_shape[:-1], self.mlp_dim)
        self.output_dense = self._dense(input_shape[-1], "output", hidden_shape)
        self.dropouts = [
            keras.layers.Dropout(self.dropout_rate, seed=self.seed + k, dtype=self.dtype_policy)
            for k in range(2 if self.dropout_rate else 0)
        ]

    def call(self, tokens, training=None):
        hidden = projected(self.hidden, tokens, activation=self._activate)  # (..., M)
        if self.dropouts:
            hidden = self.dropouts[0](hidden, training=training)
        tokens = projected(self.output_dense, hidden)
        return self.dropouts[1](tokens, training=training) if self.dropouts else tokens

    def compute_output_shape(self, input_shape):
        return input_shape

    def _dense(self, units, name, input_shape):
        dense = keras.layers.Dense(
            units,
            kernel_initializer="glorot_uniform",
            bias_initializer=keras.initializers.RandomNormal(stddev=1e-6),
            name=name,
            dtype=self.dtype_policy,
        )
        initial_values.build(dense, input_shape)
        return dense
