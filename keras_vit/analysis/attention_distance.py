"""Mean attention distance: how far the heads of each block look."""

import numpy as np

from keras_vit.analysis.blocks import block_indices
from keras_vit.analysis.capture import attention_of, captured
from keras_vit.analysis.figures import new_figure
from keras_vit.analysis.images import ImageBatches
from keras_vit.layers import checks
from keras_vit.models.image_model import require_spec
from keras_vit.models.resnet_stem import patch_stride


def attention_distance(model, images, layers=None, renormalize=True, batch_size=8, verbose="auto"):
    """The mean distance in pixels from a patch to the patches that it attends to.

    Figures 7 (right) and 11 of the paper (arXiv 2010.11929, appendix D.7), which takes 128 images:
    distances between the centres of patches, weighted by attention, averaged over the queries and
    the images. Prefix tokens have no place, so they are left out as queries and as keys. Attention
    that is the same everywhere gives 116.49 at 224 pixels in patches of 16, attention of each
    patch to itself 0.

    Args:
        model: An `ImageModel`.
        images: Images as the model takes them: an array `(B, H, W, C)`, one image `(H, W, C)`, or
            a `tf.data.Dataset`, a generator or another iterable of either, also with labels.
        layers: The blocks: None for all, or one or several of their indices, negative ones counted
            from the end, or names (`"block_3"`).
        renormalize: Whether the attention of a query to the patches is made to sum to 1 again
            after what went to prefix tokens was left out. False does not, as in the widely copied
            published code; there, a head that looks at the class token seems to look nearby.
        batch_size: Integer, images computed at a time.
        verbose: 1 shows a progress bar, 0 none, `"auto"` one where there is more than one batch.

    Returns:
        float32 array `(layers, h)` in pixels of the model's input. In a hybrid, neighbours are as
        far apart as the ResNet's strides and the patch size make them.

    Raises:
        ValueError: if the model has no spec or no attention, or the images do not fit it.
    """
    spec = require_spec(model, "analysis.attention_distance")
    checks.boolean(renormalize, "renormalize")
    blocks = [model.get_layer(f"block_{i}") for i in block_indices(layers, spec.num_layers)]
    batches = ImageBatches(model, images, batch_size, verbose)
    distances = patch_distances(spec)
    total, count = np.zeros((len(blocks), spec.num_heads)), 0
    for tokens in captured(model, [block.input for block in blocks], batches):
        for i, (block, inputs) in enumerate(zip(blocks, tokens, strict=True)):
            weights = attention_of(block, inputs)[..., spec.prefix_tokens :, spec.prefix_tokens :]
            total[i] += _per_image(weights, distances, renormalize).sum(axis=0)
        count += len(weights)
    return np.asarray(total / count, "float32")


def plot_attention_distance(model, images, renormalize=True, batch_size=8):
    """Draws `attention_distance`: a point for each head, over the depth of its block.

    Args:
        model: An `ImageModel`.
        images: As for `attention_distance`.
        renormalize: See `attention_distance`.
        batch_size: Integer, images computed at a time.

    Returns:
        A `matplotlib.figure.Figure`.
    """
    distances = attention_distance(model, images, renormalize=renormalize, batch_size=batch_size)
    return draw_attention_distance(distances)


def draw_attention_distance(distances):
    """The figure of `plot_attention_distance`, of its array `(layers, h)`."""
    figure = new_figure((4.2, 4.0))
    axis = figure.subplots()
    num_layers, num_heads = distances.shape
    for head in range(num_heads):
        label = f"Head {head + 1}" if head < 3 else "..." if head == 3 else None
        axis.scatter(range(num_layers), distances[:, head], s=14, label=label)
    axis.set(
        title="Mean attention distance",
        xlabel="Network depth (layer)",
        ylabel="Mean attention distance (pixels)",
    )
    axis.set_ylim(0, None)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.grid(alpha=0.25)
    axis.legend(loc="lower right")
    return figure


def patch_distances(spec):
    """Distances in pixels between the centres of all pairs of patches, float32 `(P, P)`."""
    rows, columns = np.indices(spec.grid).reshape(2, -1)
    height, width = patch_stride(spec.patch_size, spec.resnet)
    return np.hypot(height * (rows[:, None] - rows), width * (columns[:, None] - columns)).astype(
        "float32"
    )


def _per_image(weights, distances, renormalize):
    """Mean over the queries `(b, h)` of attention `(b, h, P, P)` times distance."""
    far = np.einsum("bhqk,qk->bhq", weights, distances)
    if renormalize:
        # A query may have nothing left for patches; it is then taken to stay where it is.
        far = far / np.maximum(weights.sum(axis=-1), np.finfo("float32").tiny)
    return far.mean(axis=-1, dtype="float64")
