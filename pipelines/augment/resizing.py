"""Bilinear resizing of uint8 images."""

from pipelines._tensorflow import tf


def resized(image, image_size):
    """Resizes an image, bilinear with aligned pixel centres and without antialiasing.

    Args:
        image: uint8 `(H, W, C)`.
        image_size: `(height, width)` of the result, in pixels.

    Returns:
        uint8 `(*image_size, C)`, rounded to the nearest.
    """
    image = tf.image.resize(image, image_size)
    return tf.cast(tf.round(image), "uint8")
