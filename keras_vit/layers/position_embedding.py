"""Learned one-dimensional position embedding, and the base that the other kinds share."""

import keras
import numpy as np
from keras import ops

from keras_vit.layers import checks
from keras_vit.layers.base import Layer


class AbsolutePositions(Layer):
    """Base of the layers that add one row of a table to each token.

    A subclass makes its variables in `build` and returns the table from `rows_of_tokens`.

    Args:
        grid: `(rows, columns)` of patches.
        prefix_tokens: Integer, how many tokens before the patches have a position of their own.
        skip_tokens: Integer, how many tokens before the patches have no position.

    Call arguments:
        tokens: Float tensor `(B, skip_tokens + prefix_tokens + rows * columns, D)`.

    Returns:
        Tokens of the same shape.
    """

    def __init__(self, grid, prefix_tokens=0, skip_tokens=0, **kwargs):
        super().__init__(**kwargs)
        self.grid = checks.pair(grid, "grid")
        self.prefix_tokens = checks.positive_integer(prefix_tokens, "prefix_tokens", minimum=0)
        self.skip_tokens = checks.positive_integer(skip_tokens, "skip_tokens", minimum=0)

    def rows_of_tokens(self):
        """The table `(1, prefix_tokens + rows * columns, D)`."""
        raise NotImplementedError

    def call(self, tokens):
        self.check_tokens(tokens.shape)  # a single token would pass, as a broadcast
        table = self.rows_of_tokens()
        if self.skip_tokens:
            table = ops.pad(table, ((0, 0), (self.skip_tokens, 0), (0, 0)))
        return tokens + table

    def compute_output_shape(self, input_shape):
        return input_shape

    @property
    def num_rows(self):
        """How many tokens have a position: prefix_tokens + rows * columns."""
        return self.prefix_tokens + self.grid[0] * self.grid[1]

    def check_tokens(self, input_shape):
        """Raises a ValueError unless there is a row for every token."""
        wanted = self.skip_tokens + self.num_rows
        if len(input_shape) != 3 or input_shape[1] != wanted:
            raise ValueError(
                f"Tokens must be `(batch, {wanted}, width)`: {self.skip_tokens} tokens without a "
                f"position, {self.prefix_tokens} prefix tokens with one and a grid of "
                f"{self.grid[0]}x{self.grid[1]} patches. Received: shape={tuple(input_shape)}"
            )


@keras.saving.register_keras_serializable(package="keras_vit")
class PositionEmbedding(AbsolutePositions):
    """Adds a learned table, one row a token: the paper's default (arXiv 2010.11929, E_pos).

    Args:
        grid: `(rows, columns)` of patches.
        prefix_tokens: Integer, how many tokens before the patches have a row of their own.
        skip_tokens: Integer, how many tokens before the patches have no position.

    Call arguments:
        tokens: Float tensor `(B, skip_tokens + prefix_tokens + rows * columns, D)`.

    Returns:
        Tokens of the same shape.
    """

    def build(self, input_shape):
        self.check_tokens(input_shape)
        self.table = self.add_weight(
            name="table",
            shape=(1, self.num_rows, input_shape[-1]),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
        )

    def rows_of_tokens(self):
        return self.table

    # The number of rows does not tell the grid: 2 x 8 patches have as many as 4 x 4. So files have
    # the grid beside the table.

    def save_own_variables(self, store):
        super().save_own_variables(store)
        store["grid"] = np.asarray(self.grid)

    def load_own_variables(self, store):
        if "grid" in store and tuple(store["grid"][:]) != self.grid:
            raise ValueError(
                f"The positions in the file are for another grid of patches than the model's. "
                f"Received: grid={tuple(int(n) for n in store['grid'][:])} in the file, "
                f"grid={self.grid} in the model. `keras_vit.load_weights(model, path)` resamples "
                "them."
            )
        self.table.assign(store["0"])
