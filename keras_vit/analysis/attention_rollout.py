"""Attention rollout: how the input patches reach the output through all blocks."""

import numpy as np

from keras_vit.analysis.capture import attention_of, captured
from keras_vit.analysis.figures import displayable, new_figure, overlay, remove_axes
from keras_vit.analysis.images import ImageBatches, gathered
from keras_vit.models.image_model import require_spec
from keras_vit.models.resnet_stem import patch_stride


def attention_rollout(model, images, full=False, batch_size=8, verbose="auto"):
    """Attention rollout (arXiv 2005.00928; arXiv 2010.11929, appendix D.8).

    Each block's probabilities are averaged over its heads, the identity is added for the residual
    connection, rows are made to sum to 1 and the blocks are multiplied, later ones on the left.
    What is read at the end is what the classifier reads: the class token; the mean of the patches
    for pooling by "avg", "max" (for which it is an approximation) or None without a class token;
    the probe's attention for "map".

    That row alone is carried from the last block to the first, so no product of matrices is formed,
    and one block's probabilities are held at a time beside the inputs of all.

    Args:
        model: An `ImageModel`.
        images: Images as the model takes them: an array `(B, H, W, C)`, one image `(H, W, C)`, or
            a `tf.data.Dataset`, a generator or another iterable of either, also with labels.
        full: Whether to return the whole product instead of the map that is read.
        batch_size: Integer, images computed at a time.
        verbose: 1 shows a progress bar, 0 none, `"auto"` one where there is more than one batch.

    Returns:
        float32 array `(B, rows, columns)` over the grid of patches; what went to prefix tokens is
        left out, so a map sums to at most 1. With `full=True` `(B, N, N)`, whose rows sum to 1.

    Raises:
        ValueError: if the model has no spec or no attention, or the images do not fit it.
    """
    spec = require_spec(model, "analysis.attention_rollout")
    batches = ImageBatches(model, images, batch_size, verbose)
    layers = [model.get_layer(f"block_{i}") for i in range(spec.num_layers)]
    if spec.pooling == "map":
        layers.append(model.get_layer("map_pooling"))
    tokens = captured(model, [layer.input for layer in layers], batches)
    rows = gathered((_rolled(layers, each, spec, full) for each in tokens), batches.count)
    return rows if full else rows[:, 0, spec.prefix_tokens :].reshape(-1, *spec.grid)


def plot_attention_rollout(model, images, columns=4, percentile=None, batch_size=8):
    """Draws each image beside the image lit by its rollout, as in figures 6 and 14 of the paper.

    The map is enlarged to the image, blurred by a patch, stretched to 0..1 and used as opacity over
    black, as the authors did. The stretch is of each map by itself: a bright place is bright for
    that image. Large models without registers may attend to a few background patches so much that
    nothing else is seen (arXiv 2309.16588); `percentile` cuts such peaks.

    Args:
        model: An `ImageModel`.
        images: As for `attention_rollout`; all of them are drawn.
        columns: Integer, pairs a row.
        percentile: None, or the number from 0 to 100 above which a map's values are cut.
        batch_size: Integer, images computed at a time.

    Returns:
        A `matplotlib.figure.Figure`.
    """
    spec = require_spec(model, "analysis.plot_attention_rollout")
    images = ImageBatches(model, images).whole()
    maps = attention_rollout(model, images, batch_size=batch_size)
    return draw_rollout(displayable(images, spec), maps, spec, columns, percentile)


def draw_rollout(pictures, maps, spec, columns=4, percentile=None):
    """The figure of `plot_attention_rollout`.

    Args:
        pictures: Floats `(B, H, W, 3)` of 0 to 1.
        maps: Array `(B, rows, columns)`.
        spec: The model's spec.
        columns: Integer, pairs a row.
        percentile: See `plot_attention_rollout`.
    """
    columns = min(columns, len(pictures))
    rows = -(-len(pictures) // columns)
    shape = spec.image_size[0] / spec.image_size[1]
    figure = new_figure((3.2 * columns, 1.6 * shape * rows + 0.3))
    axes = figure.subplots(rows, 2 * columns, squeeze=False)
    remove_axes(axes)
    for axis, title in zip(axes[0], ["Input", "Attention"] * columns, strict=True):
        axis.set_title(title, fontsize="medium")
    blur = max(patch_stride(spec.patch_size, spec.resnet))
    pairs = axes.reshape(-1, 2)
    for (left, right), picture, values in zip(pairs, pictures, maps, strict=False):
        left.imshow(picture)
        right.imshow(overlay(picture, values, blur, percentile))
    return figure


def _rolled(layers, tokens, spec, full=False):
    """What is read at the end, `(b, 1, N)`, or everything, `(b, N, N)`, in terms of the input."""
    identity = np.eye(spec.num_tokens, dtype="float32")
    if full:
        rows = identity
    elif spec.pooling == "map":
        rows = attention_of(layers[-1], tokens[-1], "heads")
    else:
        rows = _read_tokens(spec)
    for i in reversed(range(spec.num_layers)):
        residual = attention_of(layers[i], tokens[i], "heads") + identity
        rows = rows @ (residual / residual.sum(axis=-1, keepdims=True))
    return rows


def _read_tokens(spec):
    """The shares `(1, N)` in which the output reads the last block's tokens."""
    shares = np.zeros((1, spec.num_tokens), "float32")
    if spec.class_token and spec.pooling in ("token", None):
        shares[:, 0] = 1.0
    else:
        shares[:, spec.prefix_tokens :] = 1.0 / (spec.num_tokens - spec.prefix_tokens)
    return shares
