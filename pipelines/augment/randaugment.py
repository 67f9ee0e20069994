"""RandAugment as AugReg has it: 16 operations at one fixed magnitude (arXiv 1909.13719).

Magnitude m is on a scale of 0 to 10 that goes on beyond, to 15 and 20 in AugReg's presets. m = 0 is
not the identity: Invert has no magnitude, Solarize inverts everything, Brightness leaves a tenth.
"""

import functools

from pipelines._tensorflow import tf
from pipelines.augment import colors, geometry, patches
from pipelines.augment.seeds import children


def randaugment(image, seed, layers, magnitude, size=None):
    """Applies `layers` operations, each drawn from all 16 and as likely as any.

    Args:
        image: uint8 `(H, W, C)` of 1 or 3 channels.
        seed: Integer tensor `(2,)`.
        layers: Integer, how many operations one after another.
        magnitude: Number from 0, how strong.
        size: None moves by the reference's pixels; a number scales them with side / size.

    Returns:
        uint8 `(H, W, C)`.

    Raises:
        ValueError: if the image has neither 1 nor 3 channels.
    """
    if image.shape[-1] not in (1, 3):
        raise ValueError(
            "RandAugment takes images of 1 or 3 channels, because it works with grey and colour. "
            f"Received: image of shape {tuple(image.shape)}"
        )
    choose, *seeds = children(seed, layers + 1)
    # The numbers of all layers come from one draw: an operation, and a direction.
    draws = tf.random.stateless_uniform((layers, 2), choose)
    for layer, own in enumerate(seeds):
        sign = tf.where(draws[layer, 1] < 0.5, -1.0, 1.0)
        branches = operations(image, magnitude, sign, own, size)
        # The product with a number below 1 may still round up to 16.
        index = tf.minimum(tf.cast(draws[layer, 0] * len(branches), "int32"), len(branches) - 1)
        image = tf.ensure_shape(tf.switch_case(index, list(branches.values())), image.shape)
    return image


def operations(image, magnitude, sign=1.0, seed=(0, 0), size=None):
    """The 16 operations on an image as `{name: function without arguments}`.

    Args:
        image: uint8 `(H, W, C)`.
        magnitude: Number from 0.
        sign: 1.0 or -1.0, the direction of what moves.
        seed: Integer tensor `(2,)`, of the place that Cutout cuts.
        size: See `randaugment`.
    """
    level = magnitude / 10
    factor = 1.8 * level + 0.1
    height, width = _scales(image, size)
    apply = functools.partial
    return {
        "auto_contrast": apply(colors.auto_contrast, image),
        "equalize": apply(colors.equalize, image),
        "invert": apply(colors.invert, image),
        "rotate": apply(geometry.rotate, image, sign * (30 * level)),
        "posterize": apply(colors.posterize, image, int(4 * level)),
        "solarize": apply(colors.solarize, image, int(256 * level)),
        "color": apply(colors.color, image, factor),
        "contrast": apply(colors.contrast, image, factor),
        "brightness": apply(colors.brightness, image, factor),
        "sharpness": apply(colors.sharpness, image, factor),
        "shear_x": apply(geometry.shear_x, image, sign * (0.3 * level)),
        "shear_y": apply(geometry.shear_y, image, sign * (0.3 * level)),
        "translate_x": apply(geometry.translate_x, image, sign * (100 * level * width)),
        "translate_y": apply(geometry.translate_y, image, sign * (100 * level * height)),
        "cutout": apply(patches.cutout, image, int(40 * level * min(height, width)), seed),
        "solarize_add": apply(colors.solarize_add, image, int(110 * level)),
    }


def _scales(image, size):
    """What pixels are multiplied by, down and across: side / size, or 1."""
    if size is None:
        return 1.0, 1.0
    height, width = image.shape[:2]
    if height is None or width is None:
        raise ValueError(
            "Scaling RandAugment with the image needs its height and width: resize it first. "
            f"Received: image of shape {tuple(image.shape)}"
        )
    return height / size, width / size
