"""The ResNet in front of a hybrid's Transformer, and the size of what it makes.

A 7 x 7 convolution and a max pooling halve the image twice; every stage after the first halves it
again. Each halving rounds up, so k of them take n pixels to ceil(n / 2^k).

Layers: `stem_conv`, `stem_norm`, `stem_activation`, `stem_pool`, and `stage_{s}_unit_{u}` with s
and u counted from 1; the last unit of a stage has its feature map.
"""

import keras

from keras_vit.layers import BottleneckUnit, GroupNorm, MaxPooling, StdConv2D, checks
from keras_vit.models.image_spec import is_number

STEM_WIDTH = 64  # channels of the stem at width 1
GROUPS = 32
NORM_EPSILONS = {"google": 1e-6, "timm": 1e-5, "huggingface": 1e-5}


def resnet_stem(spec, x, dtype):
    """(B, H, W, C) -> (B, h, w, C') with h and w as `hybrid_grid` has them for patches of 1."""
    width = stem_width(spec.resnet_width, "resnet_width")
    epsilon = NORM_EPSILONS[spec.origin]
    standardization = None if spec.folded else spec.origin
    x = StdConv2D(
        width, 7, strides=2, standardization=standardization, name="stem_conv", dtype=dtype
    )(x)
    x = GroupNorm(GROUPS, epsilon=epsilon, name="stem_norm", dtype=dtype)(x)
    x = keras.layers.Activation("relu", name="stem_activation", dtype=dtype)(x)
    x = MaxPooling(3, strides=2, name="stem_pool", dtype=dtype)(x)
    for name, filters, strides in units(spec.resnet, width):
        x = BottleneckUnit(
            filters, strides, standardization, epsilon=epsilon, name=name, dtype=dtype
        )(x)
    return x


def units(num_layers, width):
    """`(name, inner channels, stride)` of every unit, in order."""
    for s, count in enumerate(num_layers):
        for u in range(count):
            strides = 2 if s > 0 and u == 0 else 1
            yield f"stage_{s + 1}_unit_{u + 1}", width * 2**s, strides


def stage_layers(num_layers):
    """The names of the layers whose outputs are the feature maps of the stages."""
    return tuple(f"stage_{s}_unit_{count}" for s, count in enumerate(num_layers, start=1))


def stem_width(factor, name):
    """The stem's channels at a width factor.

    Raises:
        ValueError: if they are not a multiple of the groups of its norms.
    """
    channels = STEM_WIDTH * factor if is_number(factor) else 0
    if channels < GROUPS or channels % GROUPS:
        raise ValueError(
            f"`{name}` must be a multiple of {GROUPS / STEM_WIDTH}, so that {GROUPS} groups divide "
            f"its {STEM_WIDTH} channels times the width. Received: {name}={factor!r}"
        )
    return int(channels)


def check_stages(num_layers, name):
    """`num_layers` as a tuple of positive integers, one a stage."""
    if not isinstance(num_layers, (tuple, list)):
        raise ValueError(
            f"`{name}` must be a tuple with the number of units of each stage, such as (3, 4, 9). "
            f"Received: {name}={num_layers!r}"
        )
    return tuple(checks.positive_integer(count, name) for count in num_layers)


def num_halvings(num_layers):
    """How often the image is halved: twice, and once by each stage after the first."""
    return 2 + max(0, len(num_layers) - 1)


def patch_stride(patch_size, num_layers):
    """`(height, width)` in pixels of the image from one patch to the next.

    A hybrid's patches are cut from a feature map, a pixel of which stands for 2^k pixels of the
    image.

    Args:
        patch_size: `(height, width)` of a patch where it is cut.
        num_layers: Units of each stage of the ResNet, None without one.
    """
    reduction = 1 if num_layers is None else 2 ** num_halvings(num_layers)
    return tuple(reduction * side for side in patch_size)


def hybrid_grid(image_size, patch_size, num_layers):
    """The `(rows, columns)` of patches on the feature map of a hybrid.

    Raises:
        ValueError: if a side of the feature map is not a multiple of the patch's, naming the axis
            and the nearest sizes of the image with which it is.
    """
    reduction = 2 ** num_halvings(num_layers)
    grid = []
    for axis, size, patch in zip(("height", "width"), image_size, patch_size, strict=True):
        rows = -(-size // reduction)
        if rows % patch:
            raise ValueError(_does_not_divide(axis, size, rows, patch, reduction, image_size))
        grid.append(rows // patch)
    return tuple(grid)


def _does_not_divide(axis, size, rows, patch, reduction, image_size):
    below = rows // patch * patch
    smallest = (below + patch - 1) * reduction + 1  # that gives the next multiple of the patch
    received = (
        f"Received: image_size={tuple(image_size)}, of which the ResNet stem leaves a {axis} of "
        f"{rows}, as it divides by {reduction} and rounds up, and a patch {axis} of {patch}."
    )
    if not below:
        return (
            f"The image is too small for one patch of the ResNet stem's output. {received} "
            f"The smallest {axis} is {smallest}."
        )
    return (
        f"The {axis} of the ResNet stem's output must be a multiple of the patch's. {received} "
        f"The nearest {axis}s of the image are {below * reduction} and {smallest}."
    )
