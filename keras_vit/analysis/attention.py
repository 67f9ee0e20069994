"""The attention probabilities of every block and head."""

import numbers

import numpy as np
from keras import ops

from keras_vit.analysis.capture import layer_inputs
from keras_vit.analysis.figures import pyplot, remove_axes
from keras_vit.layers import checks
from keras_vit.models.image_model import require_spec

REDUCTIONS = ("heads",)


def attention(model, images, layers=None, reduce=None, batch_size=8):
    """The attention probabilities of a model for some images.

    They are computed from each block's input by the explicit softmax; the model goes on using
    fused attention. A query's row sums to 1. Dropout is off.

    Args:
        model: An `ImageModel`.
        images: Array `(B, H, W, C)` as the model takes them.
        layers: Indices of blocks, an index, or None for all; negative ones count from the end.
        reduce: None, or `"heads"` for the mean over heads, a h-th of the memory.
        batch_size: Integer, images computed at a time.

    Returns:
        float32 array `(layers, B, h, N, N)`, query before key, or `(layers, B, N, N)`.

    Raises:
        ValueError: if the model has no spec or the images do not fit it.

    Example:

    >>> keras_vit.analysis.attention(model, images, layers=-1).shape
    (1, 2, 3, 25, 25)
    """
    spec = require_spec(model, "analysis.attention")
    if reduce is not None:
        checks.one_of(reduce, "reduce", REDUCTIONS)
    blocks = [model.get_layer(f"block_{i}") for i in block_indices(layers, spec.num_layers)]
    heads = () if reduce else (spec.num_heads,)
    shape = (len(blocks), len(images), *heads, spec.num_tokens, spec.num_tokens)
    result = np.empty(shape, "float32")
    for batch, inputs in layer_inputs(model, blocks, images, batch_size):
        for i, (block, tokens) in enumerate(zip(blocks, inputs, strict=True)):
            weights = block.attention_weights(tokens)
            result[i, batch] = ops.convert_to_numpy(ops.mean(weights, 1) if reduce else weights)
    return result


def plot_attention(model, image, layer=-1):
    """Draws how the class token of one block attends to the patches, a picture a head.

    Without a class token the mean over all queries is drawn.

    Args:
        model: An `ImageModel`.
        image: Array `(H, W, C)` as the model takes it.
        layer: Integer, index of the block.

    Returns:
        A `matplotlib.figure.Figure`.
    """
    spec = require_spec(model, "analysis.plot_attention")
    weights = attention(model, np.asarray(image)[None], layers=layer)[0, 0]  # (h, N, N)
    rows = weights[:, 0] if spec.class_token else weights.mean(axis=1)  # (h, N)
    maps = rows[:, spec.prefix_tokens :].reshape(-1, *spec.grid)
    columns = min(4, len(maps))
    figure, axes = pyplot().subplots(
        -(-len(maps) // columns), columns, squeeze=False, layout="constrained"
    )
    remove_axes(axes)
    for head, (axis, values) in enumerate(zip(axes.flat, maps, strict=False)):
        axis.imshow(values, cmap="viridis")
        axis.set_title(f"head {head}", fontsize="small")
    index = range(spec.num_layers)[layer]
    figure.suptitle(
        f"Attention of {'the class token' if spec.class_token else 'all queries'}, block {index}"
    )
    return figure


def block_indices(layers, num_layers):
    """The indices, counted from 0, of the blocks that `layers` names."""
    indices = range(num_layers) if layers is None else layers
    indices = [indices] if isinstance(indices, numbers.Integral) else list(indices)
    wrong = [i for i in indices if not -num_layers <= i < num_layers]
    if wrong or not indices:
        raise ValueError(
            f"`layers` must be indices of the model's {num_layers} blocks, from {-num_layers} to "
            f"{num_layers - 1}. Received: layers={layers!r}"
        )
    return [range(num_layers)[i] for i in indices]
