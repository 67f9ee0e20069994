"""Rectangles of an image that are overwritten: Cutout and random erasing. uint8 in and out."""

import math

from pipelines._tensorflow import tf

FILL = 128


def cutout(image, half, seed):
    """Makes a square grey, of `2 * half` pixels a side, less what is beyond the border.

    Its middle is a pixel of the image, each as likely (arXiv 1708.04552).

    Args:
        image: uint8 `(H, W, C)`.
        half: Integer, half of the side in pixels.
        seed: Integer tensor `(2,)`.
    """
    sides = tf.shape(image)[:2]
    place = tf.random.stateless_uniform((2,), seed) * tf.cast(sides, "float32")
    middle = tf.minimum(tf.cast(place, "int32"), sides - 1)
    inside = rectangle(sides, middle - half, middle + half)
    return tf.where(inside[..., None], tf.constant(FILL, image.dtype), image)


def random_erasing(image, seed, probability, area=(0.02, 1 / 3), aspect=(0.3, 1 / 0.3)):
    """Turns a rectangle of an image into noise, with a probability (arXiv 1708.04896).

    A rectangle that does not fit is narrowed to the image's side.

    Args:
        image: uint8 `(H, W, C)`.
        seed: Integer tensor `(2,)`.
        probability: Float from 0 to 1.
        area: Smallest and largest share of the image's area, uniform.
        aspect: Smallest and largest height / width, uniform in the logarithm.
    """
    number, noise = tf.unstack(tf.random.split(seed, 2))
    draw = tf.random.stateless_uniform((5,), number)
    sides = tf.shape(image)[:2]
    size = tf.cast(tf.reduce_prod(sides), "float32") * (area[0] + draw[1] * (area[1] - area[0]))
    low, high = math.log(aspect[0]), math.log(aspect[1])
    stretch = tf.exp((low + draw[2] * (high - low)) / 2)
    wanted = tf.sqrt(size) * tf.stack([stretch, 1 / stretch])
    wanted = tf.clip_by_value(tf.cast(tf.round(wanted), "int32"), 1, sides)
    room = sides - wanted
    start = tf.minimum(tf.cast(draw[3:] * tf.cast(room + 1, "float32"), "int32"), room)
    inside = rectangle(sides, start, start + wanted) & (draw[0] < probability)
    values = tf.random.stateless_uniform(tf.shape(image), noise, 0, 256, "int32")
    return tf.where(inside[..., None], tf.cast(values, "uint8"), image)


def rectangle(sides, start, stop):
    """Which pixels of an image are in a rectangle: bool `(H, W)`.

    Args:
        sides: Height and width of the image, int32 `(2,)`.
        start: First row and column.
        stop: The row and column after the last.
    """
    rows, columns = tf.range(sides[0]), tf.range(sides[1])
    in_rows = (rows >= start[0]) & (rows < stop[0])
    in_columns = (columns >= start[1]) & (columns < stop[1])
    return in_rows[:, None] & in_columns[None]
