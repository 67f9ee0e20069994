"""What the patch embedding looks for: the principal components of its filters."""

import numpy as np
from keras import ops

from keras_vit.analysis.capture import to_float32
from keras_vit.analysis.figures import mosaic, new_figure
from keras_vit.analysis.principal import principal_components
from keras_vit.layers import checks
from keras_vit.layers.std_conv import standardize
from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.image_model import require_spec
from keras_vit.models.spec import ViTSpec


def patch_filters(model, components=28):
    """The principal components of the filters that embed the patches.

    Figure 7 (left) of the paper (arXiv 2010.11929). Each of the D filters is a point with a
    coordinate for each pixel and channel of a patch; the components are the directions in which
    these points, less their mean, spread most. In a hybrid and a BiT ResNet, whose filters on the
    image are those of the ResNet's first convolution, these are taken, standardised as they are
    applied.

    Args:
        model: An `ImageModel`.
        components: Integer, how many at most. There are no more than numbers in a patch, nor than
            filters.

    Returns:
        float32 array `(components, rows, columns, C)`, of the size of a patch, the component of the
        largest spread first. Each has length 1, and the sign that makes its largest entry positive.

    Raises:
        ValueError: if the model has no spec.
    """
    return filter_components(model, components, "analysis.patch_filters")[0]


def filter_components(model, components=28, purpose="analysis.patch_filters"):
    """`patch_filters` and the share `(components,)` of the filters' variance on each."""
    spec = require_spec(model, purpose, families=(ViTSpec, BiTSpec))
    components = checks.positive_integer(components, "components")
    kernel = _image_kernel(model, spec)  # (rows, columns, C, D)
    directions, shares = principal_components(kernel.reshape(-1, kernel.shape[-1]).T, components)
    filters = directions.reshape(len(directions), *kernel.shape[:-1])
    return filters.astype("float32"), shares


def plot_patch_filters(model, components=28):
    """Draws `patch_filters` in rows of seven, each stretched to the range of the screen.

    Args:
        model: An `ImageModel`.
        components: Integer, how many at most.

    Returns:
        A `matplotlib.figure.Figure`.
    """
    return draw_filters(patch_filters(model, components))


def draw_filters(filters):
    """The figure of `plot_patch_filters`, of its array `(components, rows, columns, C)`."""
    columns = min(7, len(filters))
    low = filters.min(axis=(1, 2, 3), keepdims=True)
    spread = filters.max(axis=(1, 2, 3), keepdims=True) - low
    tiles = (filters - low) / np.maximum(spread, np.finfo("float32").tiny)
    tiles = tiles[..., :3] if tiles.shape[-1] >= 3 else np.repeat(tiles[..., :1], 3, axis=-1)
    picture, _ = mosaic(tiles, columns)
    width = max(4.2, 0.6 * columns)  # of the title
    figure = new_figure((width, 0.6 + width * picture.shape[0] / picture.shape[1]))
    axis = figure.subplots()
    axis.imshow(picture, interpolation="nearest")
    axis.axis("off")
    axis.set_title(f"RGB embedding filters\n(first {len(filters)} principal components)")
    return figure


def _image_kernel(model, spec):
    """The kernel that is applied to the image, `(rows, columns, C, D)`."""
    if spec.family == "vit" and spec.resnet is None:
        return to_float32(model.get_layer("patch_embedding").kernel)
    stem = model.get_layer("stem_conv")
    kernel = ops.convert_to_tensor(stem.kernel)
    if stem.standardization is not None:
        kernel = standardize(kernel, stem.standardization)
    return to_float32(kernel)
