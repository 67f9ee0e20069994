"""Group normalisation with the numerics of the reference implementations."""

import keras
from keras import ops

from keras_vit.layers import checks
from keras_vit.layers.base import Layer
from keras_vit.layers.platform import group_norm


@keras.saving.register_keras_serializable(package="keras_vit")
class GroupNorm(Layer):
    """Normalises groups of channels over the image (arXiv 1803.08494).

    `keras.layers.GroupNormalization` takes the variance as E[x^2] - E[x]^2 on PyTorch, which
    loses the digits of flat images, and another epsilon by default. Here the mean is taken off
    first, and all is float32 whatever the policy.

    Args:
        groups: Integer that divides the channels.
        epsilon: Float, added to the variance: 1e-6 in the paper's hybrids, 1e-5 in those of timm
            and in BiT.
        gamma_initializer: What the factors start from; `"zeros"` silences a residual branch.

    Call arguments:
        images: Float tensor `(B, H, W, C)`.

    Returns:
        Tensor of the same shape.
    """

    def __init__(self, groups=32, epsilon=1e-6, gamma_initializer="ones", **kwargs):
        super().__init__(**kwargs)
        self.groups = checks.positive_integer(groups, "groups")
        self.epsilon = epsilon
        self.gamma_initializer = gamma_initializer

    def build(self, input_shape):
        _, _, _, channels = checks.image_shape(input_shape)
        if channels % self.groups:
            raise ValueError(
                "The number of channels must be a multiple of `groups`. "
                f"Received: channels={channels}, groups={self.groups}"
            )
        self.gamma = self._vector("gamma", channels, self.gamma_initializer)
        self.beta = self._vector("beta", channels, "zeros")

    def call(self, images):
        x = ops.cast(images, keras.backend.result_type(images.dtype, "float32"))
        gamma, beta = (ops.cast(vector, x.dtype) for vector in (self.gamma, self.beta))
        x = group_norm(x, self.groups, gamma, beta, self.epsilon)
        return ops.cast(x, self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return input_shape

    def _vector(self, name, channels, initializer):
        return self.add_weight(
            name=name, shape=(channels,), initializer=initializer, autocast=False
        )
