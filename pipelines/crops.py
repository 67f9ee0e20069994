"""Crops of a whole batch at once. A box is (top, left, bottom, right) in shares of the image."""

from pipelines._tensorflow import tf


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
