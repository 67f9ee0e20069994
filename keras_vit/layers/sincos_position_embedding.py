"""Fixed two-dimensional sine and cosine positions."""

import keras
import numpy as np
from keras import ops

from keras_vit.layers.position_embedding import AbsolutePositions


@keras.saving.register_keras_serializable(package="keras_vit")
class SinCosPositionEmbedding(AbsolutePositions):
    """Adds fixed sines and cosines of the patch's column and row (arXiv 2104.02057, MoCo v3).

    Nothing is learned; prefix tokens get zeros. Used by "better plain ViT" (arXiv 2205.01580).

    Args:
        grid: `(rows, columns)` of patches.
        prefix_tokens: Integer, how many tokens come before the patches.
        skip_tokens: Integer, as `prefix_tokens`; the two differ only in learned kinds.

    Call arguments:
        tokens: Float tensor `(B, skip_tokens + prefix_tokens + rows * columns, D)`, D a multiple
            of 4.

    Returns:
        Tokens of the same shape.
    """

    def build(self, input_shape):
        self.check_tokens(input_shape)
        table = sincos_table(self.grid, input_shape[-1])
        # Computed in float64 on every backend, then cast: the angles lose digits in float32.
        self._table = np.pad(table, ((self.prefix_tokens, 0), (0, 0)))[None].astype("float32")

    def rows_of_tokens(self):
        return ops.convert_to_tensor(self._table, dtype=self.compute_dtype)


def sincos_table(grid, hidden_dim):
    """The float64 table `(rows * columns, D)`, in NumPy.

    With w_k = 10000^(-k / (D/4 - 1)), the patch in row i and column j is
    `[sin(j w), cos(j w), sin(i w), cos(i w)]`.
    """
    if hidden_dim % 4 or hidden_dim < 8:
        raise ValueError(
            "Sine-cosine positions need a width that is a multiple of 4 and at least 8. "
            f"Received: hidden_dim={hidden_dim}"
        )
    quarter = hidden_dim // 4
    frequencies = 10000.0 ** (-np.arange(quarter) / (quarter - 1))
    row, column = np.divmod(np.arange(grid[0] * grid[1]), grid[1])
    column, row = np.outer(column, frequencies), np.outer(row, frequencies)
    return np.concatenate([np.sin(column), np.cos(column), np.sin(row), np.cos(row)], axis=1)
