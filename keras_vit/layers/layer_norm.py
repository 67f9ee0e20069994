"""Layer normalisation, in the form that each backend computes fastest."""

import inspect

import keras

from keras_vit.layers.platform import layer_norm


@keras.saving.register_keras_serializable(package="keras_vit")
class LayerNorm(keras.layers.LayerNormalization):
    """Normalises each token over its channels (arXiv 1607.06450), as Keras's own layer does.

    PyTorch is called at once: the checks of `keras.ops` on the way take longer than the norm of a
    few hundred tokens.

    Args:
        epsilon: Float, added to the variance.
        **kwargs: `name`, `dtype` and `trainable`.

    Raises:
        TypeError: for other arguments of `keras.layers.LayerNormalization`.

    Call arguments:
        tokens: Float tensor `(..., D)`.

    Returns:
        Tensor of the same shape.
    """

    def __init__(self, epsilon=1e-6, **kwargs):
        others = kwargs.keys() - inspect.signature(keras.layers.Layer.__init__).parameters
        if others:
            raise TypeError(
                "`LayerNorm` normalises the last axis, with factors and offsets, and takes no more "
                "than `epsilon`; for anything else use `keras.layers.LayerNormalization`. "
                f"Received: {sorted(others)}"
            )
        super().__init__(epsilon=epsilon, **kwargs)

    def call(self, tokens):
        return layer_norm(self, tokens)

    def get_config(self):
        return {**keras.layers.Layer.get_config(self), "epsilon": self.epsilon}
