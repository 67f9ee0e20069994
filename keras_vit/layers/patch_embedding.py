"""Patch embedding: an image becomes a sequence of linearly embedded patches."""

import keras
from keras import ops

from keras_vit.layers import checks
from keras_vit.layers.base import Layer


@keras.saving.register_keras_serializable(package="keras_vit")
class PatchEmbedding(Layer):
    """Cuts an image into patches and embeds each by the same linear map.

    The E of equation 1 of the paper (arXiv 2010.11929, section 3.1). Patches are taken row by row.
    Images are channels-last, whatever `keras.config.image_data_format()` says.

    Args:
        patch_size: Integer or `(height, width)`, in pixels.
        hidden_dim: Integer D, the width of a token.

    Call arguments:
        images: Float tensor `(B, H, W, C)`; H and W are multiples of the patch's sides.

    Returns:
        Tokens `(B, N, D)` with N = (H / patch height) * (W / patch width).

    Raises:
        ValueError: if the image's height or width is unknown or not a multiple of the patch's.

    Example:

    >>> keras_vit.layers.PatchEmbedding(8, hidden_dim=48)(np.zeros((2, 32, 24, 3))).shape
    (2, 12, 48)
    """

    def __init__(self, patch_size, hidden_dim, **kwargs):
        super().__init__(**kwargs)
        self.patch_size = checks.pair(patch_size, "patch_size")
        self.hidden_dim = checks.positive_integer(hidden_dim, "hidden_dim")

    def build(self, input_shape):
        self._num_tokens(input_shape)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(*self.patch_size, input_shape[-1], self.hidden_dim),
            initializer="lecun_normal",
        )
        self.bias = self.add_weight(name="bias", shape=(self.hidden_dim,), initializer="zeros")

    def call(self, images):
        tokens = ops.conv(
            images, self.kernel, strides=self.patch_size, data_format="channels_last"
        )  # (B, rows, columns, D)
        tokens = ops.reshape(tokens, (-1, self._num_tokens(images.shape), self.hidden_dim))
        return tokens + self.bias

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self._num_tokens(input_shape), self.hidden_dim)

    def _num_tokens(self, shape):
        rows, columns = checks.patch_grid(checks.image_shape(shape)[1:3], self.patch_size)
        return rows * columns
