"""What a model is evaluated on, and crops of a whole batch at once.

A box is (top, left, bottom, right) in shares of the image.
"""

import math

from pipelines._tensorflow import tf


def evaluation_view(image, spec):
    """An image as the model is evaluated on it, by the facts that came with its weights.

    The image is resized to the model's size over `crop_fraction`, both sides at once where
    `crop_mode` is `"squash"`, and else until it covers that size; then the centre is cropped.

    Args:
        image: uint8 `(H, W, C)`, or images `(B, H, W, C)` of one size.
        spec: A model's `spec`, for its `image_size` and `preprocessing`.

    Returns:
        uint8 `(*image_size, C)`, or `(B, *image_size, C)`, rounded to the nearest.
    """
    facts = spec.preprocessing
    image = tf.convert_to_tensor(image)
    height, width = spec.image_size
    # The fraction may itself be a quotient: 212 / (212 / 238) is a little less than 238.
    size = tf.constant([math.floor(side / facts.crop_fraction + 1e-6) for side in (height, width)])
    if facts.crop_mode == "center":
        size = _covering(tf.shape(image)[-3:-1], size)
    resized = tf.image.resize(image, size, facts.resize_method, antialias=facts.antialias)
    resized = tf.cast(tf.clip_by_value(tf.round(resized), 0.0, 255.0), "uint8")
    top, left = tf.unstack((size - [height, width]) // 2)
    view = resized[..., top : top + height, left : left + width, :]
    return tf.ensure_shape(view, (*image.shape[:-3], height, width, image.shape[-1]))


def _covering(sides, size):
    """The smallest size of the aspect of `sides` that covers `size`, int32 `(2,)`."""
    scale = tf.reduce_max(tf.cast(size, "float64") / tf.cast(sides, "float64"))
    # The side that decides is exact; the other is cut to a whole number, as torchvision does.
    covering = tf.cast(tf.cast(sides, "float64") * scale + 1e-6, "int32")
    return tf.maximum(covering, size)


def whole_boxes(count):
    """`count` boxes of the whole image, float32 `(count, 4)`."""
    return tf.tile([[0.0, 0.0, 1.0, 1.0]], (count, 1))


def random_boxes(count, seed, smallest):
    """Boxes whose sides are uniform between `smallest` and 1, half of them flipped left to right.

    Args:
        count: Integer, how many.
        seed: Integer tensor `(2,)`; the same seed gives the same boxes.
        smallest: Float, the smallest side.

    Returns:
        float32 `(count, 4)`. A flipped box has its right side at the left.
    """
    sides = tf.random.stateless_uniform((count, 2), seed, smallest, 1.0)
    places = tf.random.stateless_uniform((count, 2), seed + 1) * (1.0 - sides)
    (top, left), (bottom, right) = tf.unstack(places, axis=1), tf.unstack(places + sides, axis=1)
    flip = tf.random.stateless_uniform((count,), seed + 2) < 0.5
    left, right = tf.where(flip, right, left), tf.where(flip, left, right)
    return tf.stack([top, left, bottom, right], axis=1)


def resized_crops(images, boxes, image_size):
    """Cuts one box out of each image and resizes it, bilinear.

    Args:
        images: uint8 `(b, H, W, C)`.
        boxes: float32 `(b, 4)`.
        image_size: `(height, width)` of the result.

    Returns:
        uint8 `(b, *image_size, C)`. A whole box at the image's own size gives the image itself.
    """
    crops = tf.image.crop_and_resize(
        tf.cast(images, "float32"), boxes, tf.range(tf.shape(images)[0]), image_size
    )
    crops = tf.cast(tf.round(crops), "uint8")
    return tf.ensure_shape(crops, (images.shape[0], *image_size, images.shape[-1]))
