"""Learned two-dimensional position embedding: a table of rows and a table of columns."""

import keras
from keras import ops

from keras_vit.layers.position_embedding import AbsolutePositions


@keras.saving.register_keras_serializable(package="keras_vit")
class PositionEmbedding2D(AbsolutePositions):
    """Adds, to the patch in row i and column j, `[columns[j], rows[i]]`, each half a token wide.

    The "2-D" kind of the paper (arXiv 2010.11929, appendix D.4). Prefix tokens have full-width
    rows of their own, of which the paper does not speak.

    Args:
        grid: `(rows, columns)` of patches.
        prefix_tokens: Integer, how many tokens before the patches have a row of their own.
        skip_tokens: Integer, how many tokens before the patches have no position.

    Call arguments:
        tokens: Float tensor `(B, skip_tokens + prefix_tokens + rows * columns, D)`, D even.

    Returns:
        Tokens of the same shape.
    """

    def build(self, input_shape):
        self.check_tokens(input_shape)
        hidden_dim = input_shape[-1]
        if hidden_dim % 2:
            raise ValueError(
                "Two-dimensional positions take half of the width each, so it must be even. "
                f"Received: hidden_dim={hidden_dim}"
            )
        self.rows = self._table("rows", (self.grid[0], hidden_dim // 2))
        self.columns = self._table("columns", (self.grid[1], hidden_dim // 2))
        self.prefix = None
        if self.prefix_tokens:
            self.prefix = self._table("prefix", (1, self.prefix_tokens, hidden_dim))

    def rows_of_tokens(self):
        shape = (*self.grid, self.rows.shape[-1])
        columns = ops.broadcast_to(ops.expand_dims(self.columns, 0), shape)
        rows = ops.broadcast_to(ops.expand_dims(self.rows, 1), shape)
        table = ops.concatenate([columns, rows], axis=-1)  # (rows, columns, D)
        table = ops.reshape(table, (1, self.grid[0] * self.grid[1], 2 * shape[-1]))
        return table if self.prefix is None else ops.concatenate([self.prefix, table], axis=1)

    def _table(self, name, shape):
        initializer = keras.initializers.RandomNormal(stddev=0.02)
        return self.add_weight(name=name, shape=shape, initializer=initializer)
