"""The attention probabilities of every block and head."""

import numpy as np

from keras_vit.analysis.blocks import block_indices
from keras_vit.analysis.capture import attention_of, captured
from keras_vit.analysis.figures import displayable, new_figure, remove_axes
from keras_vit.analysis.images import ImageBatches, gathered
from keras_vit.layers import checks
from keras_vit.models.image_model import require_spec

REDUCTIONS = ("heads", None)


def attention(model, images, layers=None, reduce=None, batch_size=8, verbose="auto"):
    """The attention probabilities of a model for some images.

    They are computed from each block's input by the explicit softmax; the model goes on using
    fused attention. A query's row sums to 1. Dropout is off.

    Args:
        model: An `ImageModel`.
        images: Images as the model takes them: an array `(B, H, W, C)`, one image `(H, W, C)`, or
            a `tf.data.Dataset`, a generator or another iterable of either, also with labels.
        layers: The blocks: None for all, or one or several of their indices, negative ones counted
            from the end, or names (`"block_3"`).
        reduce: None, or `"heads"` for the mean over heads, a h-th of the memory.
        batch_size: Integer, images computed at a time.
        verbose: 1 shows a progress bar, 0 none, `"auto"` one where there is more than one batch.

    Returns:
        float32 array `(layers, B, h, N, N)`, query before key, or `(layers, B, N, N)`.

    Raises:
        ValueError: if the model has no spec or no attention, or the images do not fit it.

    Example:

    >>> keras_vit.analysis.attention(model, images, layers=-1).shape
    (1, 2, 3, 25, 25)
    """
    spec = require_spec(model, "analysis.attention")
    checks.one_of(reduce, "reduce", REDUCTIONS)
    blocks = [model.get_layer(f"block_{i}") for i in block_indices(layers, spec.num_layers)]
    batches = ImageBatches(model, images, batch_size, verbose)
    results = (
        np.stack([attention_of(*each, reduce) for each in zip(blocks, tokens, strict=True)])
        for tokens in captured(model, [block.input for block in blocks], batches)
    )
    return gathered(results, batches.count, axis=1)


def plot_attention(model, image, layer=-1):
    """Draws an image and how the class token of one block attends to its patches, head by head.

    Without a class token the mean over all queries is drawn.

    Args:
        model: An `ImageModel`.
        image: Array `(H, W, C)` as the model takes it.
        layer: Index or name of the block.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ValueError: as for `attention`, and if there are several images.
    """
    spec = require_spec(model, "analysis.plot_attention")
    (index,) = block_indices([layer], spec.num_layers)
    images = ImageBatches(model, image).whole()
    if len(images) != 1:
        raise ValueError(
            f"`image` must be one image: choose one, `images[i]`. Received: {len(images)} images"
        )
    weights = attention(model, images, layers=index)[0, 0]  # (h, N, N)
    rows = weights[:, 0] if spec.class_token else weights.mean(axis=1)  # (h, N)
    maps = rows[:, spec.prefix_tokens :].reshape(-1, *spec.grid)
    return _draw(displayable(images, spec)[0], maps, index, spec.class_token)


def _draw(picture, maps, index, class_token):
    rows = -(-(1 + len(maps)) // 5)
    columns = -(-(1 + len(maps)) // rows)
    shape = picture.shape[0] / picture.shape[1]
    figure = new_figure((1.9 * columns, (1.8 * shape + 0.3) * rows + 0.3))
    axes = figure.subplots(rows, columns, squeeze=False)
    remove_axes(axes)
    axes.flat[0].imshow(picture)
    axes.flat[0].set_title("image", fontsize="small")
    extent = (-0.5, picture.shape[1] - 0.5, picture.shape[0] - 0.5, -0.5)
    for head, (axis, values) in enumerate(zip(axes.flat[1:], maps, strict=False)):
        axis.imshow(values, cmap="viridis", extent=extent)
        axis.set_title(f"head {head}", fontsize="small")
    figure.suptitle(
        f"Attention of {'the class token' if class_token else 'all queries'}, block {index}"
    )
    return figure
