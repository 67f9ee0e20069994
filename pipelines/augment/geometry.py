"""Operations that move pixels: uint8 `(H, W, C)` in and out, nearest neighbour, grey where empty.

Transforms are written from a pixel (x, y) of the result to the one of the image that goes there, x
to the right and y down.
"""

import math

from pipelines._tensorflow import tf

FILL = 128


def rotate(image, degrees):
    """Turns an image about its middle, counter-clockwise for positive degrees."""
    radians = degrees * (math.pi / 180)
    cosine, sine = tf.cos(radians), tf.sin(radians)
    height, width = tf.unstack(tf.cast(tf.shape(image)[:2], "float32"))
    x, y = (width - 1) / 2, (height - 1) / 2
    right = (cosine, -sine, x - cosine * x + sine * y)
    down = (sine, cosine, y - sine * x - cosine * y)
    return _transform(image, right, down)


def shear_x(image, level):
    """Moves every row left by `level` times its distance from the first."""
    return _transform(image, (1.0, level, 0.0), (0.0, 1.0, 0.0))


def shear_y(image, level):
    """Moves every column up by `level` times its distance from the first."""
    return _transform(image, (1.0, 0.0, 0.0), (level, 1.0, 0.0))


def translate_x(image, pixels):
    """Moves an image left."""
    return _transform(image, (1.0, 0.0, pixels), (0.0, 1.0, 0.0))


def translate_y(image, pixels):
    """Moves an image up."""
    return _transform(image, (1.0, 0.0, 0.0), (0.0, 1.0, pixels))


def _transform(image, right, down):
    rows = tf.stack([tf.cast(value, "float32") for value in (*right, *down, 0.0, 0.0)])
    moved = tf.raw_ops.ImageProjectiveTransformV3(
        images=image[None],
        transforms=rows[None],
        output_shape=tf.shape(image)[:2],
        fill_value=float(FILL),
        interpolation="NEAREST",
        fill_mode="CONSTANT",
    )
    return tf.ensure_shape(moved[0], image.shape)
