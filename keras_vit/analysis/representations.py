"""The tokens after each block."""

import numpy as np

from keras_vit.analysis.blocks import block_indices
from keras_vit.analysis.capture import captured, to_float32
from keras_vit.analysis.figures import displayable, new_figure, remove_axes
from keras_vit.analysis.images import ImageBatches, gathered
from keras_vit.analysis.principal import principal_components
from keras_vit.layers import checks
from keras_vit.models.image_model import require_spec


def representations(model, images, layers=None, norm=False, batch_size=8, verbose="auto"):
    """The tokens that leave some blocks of a model, for probes and for looking at.

    Args:
        model: An `ImageModel`.
        images: Images as the model takes them: an array `(B, H, W, C)`, one image `(H, W, C)`, or
            a `tf.data.Dataset`, a generator or another iterable of either, also with labels.
        layers: The blocks: None for all, or one or several of their indices, negative ones counted
            from the end, or names (`"block_3"`).
        norm: Whether the tokens pass the model's final layer norm, those of earlier blocks too. A
            model with `norm_after_pool` would apply it to the pooled token only.
        batch_size: Integer, images computed at a time.
        verbose: 1 shows a progress bar, 0 none, `"auto"` one where there is more than one batch.

    Returns:
        float32 array `(layers, B, N, D)`: class token, registers, patches row by row.

    Raises:
        ValueError: if the model has no spec or no tokens, or the images do not fit it.

    Example:

    >>> keras_vit.analysis.representations(model, images, layers=[0, -1], norm=True).shape
    (2, 2, 25, 48)
    """
    spec = require_spec(model, "analysis.representations")
    checks.boolean(norm, "norm")
    blocks = [model.get_layer(f"block_{i}") for i in block_indices(layers, spec.num_layers)]
    batches = ImageBatches(model, images, batch_size, verbose)
    results = (
        np.stack([_values(model, each, norm) for each in tokens])
        for tokens in captured(model, [block.output for block in blocks], batches)
    )
    return gathered(results, batches.count, axis=1)


def plot_representations(model, images, layers=None, batch_size=8):
    """Draws, beside each image, the patches after some blocks, alike ones in like colours.

    The colours of a block are its patches' first three principal components, over all the images,
    as red, green and blue. The paper has no such figure; it is how features are usually shown
    (arXiv 2304.07193, figure 1).

    Args:
        model: An `ImageModel`.
        images: As for `representations`; all of them are drawn.
        layers: The blocks, as for `representations`; None for five spread over the depth.
        batch_size: Integer, images computed at a time.

    Returns:
        A `matplotlib.figure.Figure`.
    """
    spec = require_spec(model, "analysis.plot_representations")
    if layers is None:
        layers = sorted({round(i) for i in np.linspace(0, spec.num_layers - 1, 5)})
    indices = block_indices(layers, spec.num_layers)
    images = ImageBatches(model, images).whole()
    tokens = representations(model, images, indices, batch_size=batch_size)
    pictures = displayable(images, spec)
    colours = [
        _colours(each[:, spec.prefix_tokens :]).reshape(-1, *spec.grid, 3) for each in tokens
    ]
    shape = spec.image_size[0] / spec.image_size[1]
    figure = new_figure((1.7 * (1 + len(indices)), 1.7 * shape * len(pictures) + 0.3))
    axes = figure.subplots(len(pictures), 1 + len(indices), squeeze=False)
    remove_axes(axes)
    extent = (-0.5, pictures.shape[2] - 0.5, pictures.shape[1] - 0.5, -0.5)
    for i, row in enumerate(axes):
        row[0].imshow(pictures[i])
        for axis, maps in zip(row[1:], colours, strict=True):
            axis.imshow(maps[i], extent=extent, interpolation="nearest")
    for axis, title in zip(axes[0], ("Input", *(f"block {i}" for i in indices)), strict=True):
        axis.set_title(title, fontsize="medium")
    return figure


def _values(model, tokens, norm):
    # Computed outside the graph: a call in it would be one more place of the model's own layer.
    return to_float32(model.get_layer("norm")(tokens) if norm else tokens)


def _colours(tokens):
    """(B, P, D) -> (B, P, 3) of 0 to 1: the first three principal components over all patches."""
    points = tokens.reshape(-1, tokens.shape[-1]).astype("float64")
    directions, _ = principal_components(points, 3)
    values = (points - points.mean(axis=0)) @ directions.T
    values = np.pad(values, ((0, 0), (0, 3 - values.shape[1])))
    # A few far tokens would leave no colours for the others.
    low, high = np.percentile(values, (1, 99), axis=0)
    values = np.clip((values - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)
    return values.reshape(*tokens.shape[:-1], 3)
