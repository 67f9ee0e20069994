"""Attention rollout: how the input patches reach the output through all blocks."""

import numpy as np
from keras import ops

from keras_vit.analysis.attention import attention
from keras_vit.analysis.capture import checked_images, layer_inputs
from keras_vit.analysis.figures import displayable, overlay, pyplot, remove_axes
from keras_vit.models.image_model import require_spec


def attention_rollout(model, images, full=False, batch_size=8):
    """Attention rollout (arXiv 2005.00928; arXiv 2010.11929, appendix D.8).

    Each block's probabilities are averaged over its heads, the identity is added for the residual
    connection, rows are made to sum to 1 and the blocks are multiplied, later ones on the left.
    What is read at the end is what the classifier reads: the class token; the mean of the patches
    for pooling by "avg", "max" (for which it is an approximation) or None without a class token;
    the probe's attention for "map".

    Args:
        model: An `ImageModel`.
        images: Array `(B, H, W, C)` as the model takes them.
        full: Whether to return the whole product instead of the map that is read.
        batch_size: Integer, images computed at a time.

    Returns:
        float32 array `(B, rows, columns)` over the grid of patches; what went to prefix tokens is
        left out, so a map sums to at most 1. With `full=True` `(B, N, N)`, whose rows sum to 1.

    Raises:
        ValueError: if the model has no spec or the images do not fit it.
    """
    spec = require_spec(model, "analysis.attention_rollout")
    images = checked_images(model, images)
    if full:
        shape = (len(images), spec.num_tokens, spec.num_tokens)
        start = np.broadcast_to(np.eye(spec.num_tokens, dtype="float32"), shape)
        return _roll(model, images, start, batch_size)
    rolled = _roll(model, images, _read_tokens(model, spec, images, batch_size), batch_size)
    return rolled[:, 0, spec.prefix_tokens :].reshape(-1, *spec.grid)


def plot_attention_rollout(model, images, columns=4, batch_size=8):
    """Draws each image beside the image lit by its rollout, as in figures 6 and 14 of the paper.

    The map is enlarged to the image, blurred by a patch, stretched to 0..1 and used as opacity over
    black, as the authors did.

    Args:
        model: An `ImageModel`.
        images: Array `(B, H, W, C)` as the model takes them.
        columns: Integer, pairs a row.
        batch_size: Integer, images computed at a time.

    Returns:
        A `matplotlib.figure.Figure`.
    """
    spec = require_spec(model, "analysis.plot_attention_rollout")
    maps = attention_rollout(model, images, batch_size=batch_size)
    pictures = displayable(images, spec)
    columns = min(columns, len(pictures))
    rows = -(-len(pictures) // columns)
    figure, axes = pyplot().subplots(
        rows, 2 * columns, figsize=(3 * columns, 1.6 * rows), squeeze=False, layout="constrained"
    )
    remove_axes(axes)
    pairs = axes.reshape(-1, 2)
    for (left, right), picture, values in zip(pairs, pictures, maps, strict=False):
        left.imshow(picture)
        right.imshow(overlay(picture, values, max(spec.patch_size)))
    return figure


def _roll(model, images, start, batch_size):
    """`start` (B, Q, N) times the product of all blocks, without forming the product.

    A batch's matrices are averaged over heads as they are captured, so the memory is that of the
    layers, not of the heads.
    """
    rolled = np.empty(start.shape, "float32")
    for first in range(0, len(images), batch_size):
        batch = slice(first, first + batch_size)
        values = start[batch]
        for weights in attention(model, images[batch], None, "heads", batch_size)[::-1]:
            residual = weights + np.eye(weights.shape[-1], dtype="float32")
            values = values @ (residual / residual.sum(axis=-1, keepdims=True))
        rolled[batch] = values
    return rolled


def _read_tokens(model, spec, images, batch_size):
    """The shares in which the output reads the last block's tokens, `(B, 1, N)`."""
    shares = np.zeros((len(images), 1, spec.num_tokens), "float32")
    if spec.pooling == "map":
        pooling = model.get_layer("map_pooling")
        for batch, (tokens,) in layer_inputs(model, [pooling], images, batch_size):
            weights = ops.mean(pooling.attention_weights(tokens), axis=1)
            shares[batch] = ops.convert_to_numpy(weights)
    elif spec.class_token and spec.pooling in ("token", None):
        shares[..., 0] = 1.0
    else:
        shares[..., spec.prefix_tokens :] = 1.0 / (spec.num_tokens - spec.prefix_tokens)
    return shares
