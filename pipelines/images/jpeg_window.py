"""Windows of JPEGs: only the rows and columns that are needed, and large ones no finer than needed.

libjpeg can decode an image at a half, a quarter or an eighth of its size at a part of the cost: it
leaves out the fine parts of every block. That is a better reduction than what it saves, a bilinear
resize from full size, which looks at few of the pixels.
"""

from pipelines._tensorflow import tf

LARGE = 2_000_000  # pixels; smaller images are decoded at their own size always
RATIOS = (2, 4, 8)


def window(data, size, box, channels, least=None):
    """Decodes a window of a JPEG.

    Args:
        data: Scalar string tensor.
        size: Height and width of the image, int32 `(2,)`.
        box: Top, left, height and width, int32 `(4,)`.
        channels: 3 or 1.
        least: `(height, width)` in pixels that the window shall have if it has them: of a large
            image it is decoded at the smallest size that leaves so many. None: at its own.

    Returns:
        uint8 `(height, width, channels)`, of the box or a half, quarter or eighth of it.
    """

    if least is None:
        return exact(data, size, box, channels)
    # How many of the ratios leave enough pixels; none for a small image.
    enough = [tf.reduce_all(box[2:] // ratio >= least) for ratio in RATIOS]
    large = tf.reduce_prod(tf.cast(size, "int64")) >= LARGE
    index = tf.where(large, tf.reduce_sum(tf.cast(tf.stack(enough), "int32")), 0)
    branches = [lambda ratio=ratio: _reduced(data, box, channels, ratio) for ratio in RATIOS]
    return tf.switch_case(index, [lambda: exact(data, size, box, channels), *branches])


def exact(data, size, box, channels):
    """The same to the last bit as the window of the whole image; as of `window`."""
    # Colours are interpolated from the next pixels, so these are decoded too.
    corner, sides = tf.split(box, 2)
    start = tf.maximum(corner - 1, 0)
    stop = tf.minimum(corner + sides + 1, size)
    pixels = tf.image.decode_and_crop_jpeg(
        data, tf.concat([start, stop - start], 0), channels=channels
    )
    begin = corner - start
    return tf.strided_slice(pixels, begin, begin + sides)


def _reduced(data, box, channels, ratio):
    """At a part of its size; edges are rounded to whole pixels of that."""
    part = tf.concat([box[:2] // ratio, tf.maximum(box[2:] // ratio, 1)], 0)
    return tf.image.decode_and_crop_jpeg(data, part, channels=channels, ratio=ratio)
