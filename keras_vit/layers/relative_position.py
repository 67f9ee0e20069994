"""Relative positions: attention logits from the query and the offset to the key."""

import keras
import numpy as np
from keras import ops

from keras_vit.layers import checks
from keras_vit.layers.base import Layer


@keras.saving.register_keras_serializable(package="keras_vit")
class RelativePosition(Layer):
    """Attention logits that depend on the query's content and its offset to the key.

    The "relative" kind of the paper (arXiv 2010.11929, appendix D.4): the query attends to a
    learned embedding of the offset p_q - p_k, and the logits are added to those of the content.
    The paper's offsets are one-dimensional; here they are (row, column) pairs, so that the table
    can be resampled to another grid. The embeddings are shared by the heads.

    Args:
        grid: `(rows, columns)` of patches.
        prefix_tokens: Integer P, tokens before the patches. They have no place in the image: each
            has one embedding as a query of any patch, one as a key of any patch, and one for each
            prefix token.

    Call arguments:
        query: Float tensor `(B, Q, h, d)`, already scaled, of the first Q of all
            N = P + rows * columns tokens.

    Returns:
        Logits `(B, h, Q, N)`, query before key.
    """

    def __init__(self, grid, prefix_tokens=0, **kwargs):
        super().__init__(**kwargs)
        self.grid = checks.pair(grid, "grid")
        self.prefix_tokens = checks.positive_integer(prefix_tokens, "prefix_tokens", minimum=0)

    def build(self, input_shape):
        self._check_queries(input_shape)
        initializer = keras.initializers.RandomNormal(stddev=0.02)
        rows, columns = self.grid
        self.table = self.add_weight(
            name="table",
            shape=(2 * rows - 1, 2 * columns - 1, input_shape[-1]),
            initializer=initializer,
        )
        self.prefix = None
        if self.prefix_tokens:
            self.prefix = self.add_weight(
                name="prefix",
                shape=(self.prefix_tokens * (2 + self.prefix_tokens), input_shape[-1]),
                initializer=initializer,
            )

    def call(self, query):
        embeddings = ops.reshape(self.table, (-1, self.table.shape[-1]))
        if self.prefix is not None:
            embeddings = ops.concatenate([embeddings, self.prefix], axis=0)
        index = offset_index(self.grid, self.prefix_tokens)
        keys = ops.take(embeddings, index[: query.shape[1]], axis=0)  # (Q, N, d)
        return ops.einsum("bqhd,qkd->bhqk", query, keys)

    def compute_output_shape(self, query_shape):
        batch, queries, heads, _ = query_shape
        return (batch, heads, queries, self._num_tokens())

    def _num_tokens(self):
        return self.prefix_tokens + self.grid[0] * self.grid[1]

    def _check_queries(self, shape):
        wanted = self._num_tokens()
        if len(shape) != 4 or shape[1] != wanted:
            raise ValueError(
                f"Queries must be `(batch, {wanted}, heads, width)`: {self.prefix_tokens} prefix "
                f"tokens and a grid of {self.grid[0]}x{self.grid[1]} patches. "
                f"Received: shape={tuple(shape)}"
            )


def offset_index(grid, prefix_tokens):
    """For each (query, key) pair, its place among the flat table's rows and then the prefix's.

    Returns:
        int32 array `(N, N)` with N = prefix_tokens + rows * columns.
    """
    rows, columns = grid
    row, column = np.divmod(np.arange(rows * columns), columns)
    row_offset = row[:, None] - row[None, :] + rows - 1
    column_offset = column[:, None] - column[None, :] + columns - 1
    patches = row_offset * (2 * columns - 1) + column_offset
    first = (2 * rows - 1) * (2 * columns - 1)
    prefix = np.arange(prefix_tokens)
    index = np.empty((prefix_tokens + rows * columns,) * 2, "int32")
    index[prefix_tokens:, prefix_tokens:] = patches
    index[:prefix_tokens, prefix_tokens:] = first + prefix[:, None]
    index[prefix_tokens:, :prefix_tokens] = first + prefix_tokens + prefix[None, :]
    pairs = prefix[:, None] * prefix_tokens + prefix[None, :]
    index[:prefix_tokens, :prefix_tokens] = first + 2 * prefix_tokens + pairs
    return index
