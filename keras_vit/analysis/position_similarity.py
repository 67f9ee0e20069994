"""How alike the positions of the patches are."""

import numpy as np
from keras import ops

from keras_vit.analysis.blocks import block_indices
from keras_vit.analysis.figures import mosaic, new_figure
from keras_vit.models.image_model import require_spec


def position_similarity(model, layer=0):
    """Cosine similarity between the position embeddings of all pairs of patches.

    Figure 7 (centre) of the paper (arXiv 2010.11929). Prefix tokens are left out. Relative
    positions have no embedding of a place, only of an offset: there, entry (p, q) compares the
    offset p - q with no offset.

    Args:
        model: An `ImageModel`.
        layer: Integer, the block whose positions are read where each block has its own.

    Returns:
        float32 array `(rows, columns, rows, columns)`.

    Raises:
        ValueError: if the model has no spec or no positions.
    """
    spec = require_spec(model, "analysis.position_similarity")
    if spec.position_embedding == "none":
        raise ValueError(
            "The model has no position embedding to compare. Received: position_embedding='none'"
        )
    (index,) = block_indices([layer], spec.num_layers)
    if spec.position_embedding == "relative":
        return _offset_similarity(model.get_layer(f"block_{index}"), spec.grid)
    own = spec.position_injection == "every_layer" and index > 0
    positions = model.get_layer(f"position_embedding_{index}" if own else "position_embedding")
    table = ops.convert_to_numpy(ops.cast(positions.rows_of_tokens(), "float32"))[0]
    unit = _unit(table[positions.prefix_tokens :])
    return (unit @ unit.T).reshape(*spec.grid, *spec.grid)


def plot_position_similarity(model, layer=0):
    """Draws `position_similarity`: a tile for each patch, of its similarity with all patches.

    Args:
        model: An `ImageModel`.
        layer: Integer, the block whose positions are read where each block has its own.

    Returns:
        A `matplotlib.figure.Figure`.
    """
    return draw_position_similarity(position_similarity(model, layer))


def draw_position_similarity(similarity):
    """The figure of `plot_position_similarity`, of its array `(rows, columns, rows, columns)`."""
    rows, columns = similarity.shape[:2]
    picture, (tops, lefts) = mosaic(similarity.reshape(-1, rows, columns), columns)
    figure = new_figure((5.0, 0.9 + 3.6 * picture.shape[0] / picture.shape[1]))
    axis = figure.subplots()
    image = axis.imshow(picture, vmin=-1, vmax=1, cmap="viridis", interpolation="nearest")
    for which, places, side in ((axis.yaxis, tops, rows), (axis.xaxis, lefts, columns)):
        every = -(-len(places) // 8)  # labels of more would run into each other
        which.set_ticks(places[::every] + (side - 1) / 2, range(1, len(places) + 1, every))
        which.set_tick_params(length=0)
    axis.spines[:].set_visible(False)
    axis.set(
        title="Position embedding similarity",
        xlabel="Input patch column",
        ylabel="Input patch row",
    )
    figure.colorbar(image, label="Cosine similarity", ticks=(-1, 0, 1))
    return figure


def _offset_similarity(block, grid):
    rows, columns = grid
    table = _unit(ops.convert_to_numpy(block.attention.relative_position.table).astype("float32"))
    to_none = table @ table[rows - 1, columns - 1]  # (2 rows - 1, 2 columns - 1)
    row, column = np.arange(rows), np.arange(columns)
    row_offset = row[:, None] - row[None, :] + rows - 1
    column_offset = column[:, None] - column[None, :] + columns - 1
    return to_none[row_offset[:, None, :, None], column_offset[None, :, None, :]]


def _unit(vectors):
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(norms, np.finfo("float32").tiny)
