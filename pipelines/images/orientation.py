"""How an image lies in its file, by the EXIF block: orientations of 1, upright, to 8.

2 to 4 are mirrored or upside down; 5 to 8 lie on their side too, so that height and width change
places. All of it works in a graph.
"""

from pipelines._tensorflow import tf


def has_plain_header(data):
    """Whether a file is a JPEG without an EXIF block, for all its first bytes tell: bool scalar.

    Most files that programs write begin with their quantisation tables, at once or behind the 18
    bytes of JFIF. Other JPEGs may have no EXIF block either.
    """
    start = tf.strings.join([tf.strings.substr(data, 0, 22), b"\0" * 22])  # never too short
    jpeg = tf.equal(tf.strings.substr(start, 0, 2), b"\xff\xd8")
    tables = tf.equal(tf.strings.substr(start, 2, 2), b"\xff\xdb")
    jfif = tf.equal(tf.strings.substr(start, 2, 4), b"\xff\xe0\0\x10")
    tables_behind = tf.equal(tf.strings.substr(start, 20, 2), b"\xff\xdb")
    return jpeg & (tables | (jfif & tables_behind))


def jpeg_orientation(data):
    """The orientation of a JPEG file, a scalar string tensor: int32 scalar, 1 where it has none."""
    return tf.cond(
        has_plain_header(data),  # searching costs a tenth of decoding a small image
        lambda: tf.constant(1),
        lambda: _orientation_behind(tf.strings.substr(data, 0, 1 << 18), b"Exif\0\0"),
    )


def png_orientation(data):
    """The orientation of a PNG file, a scalar string tensor: int32 scalar, 1 where it has none."""
    return _orientation_behind(data, b"eXIf")


def _orientation_behind(data, mark):
    """int32 scalar of 1 to 8: what the EXIF block says that follows the mark, 1 without one."""
    parts = tf.strings.split(data, mark, maxsplit=1)
    return tf.cond(
        tf.shape(parts)[0] > 1,
        lambda: _tiff_orientation(tf.strings.substr(parts[1], 0, 1 << 16)),
        lambda: tf.constant(1),
    )


@tf.function(input_signature=[tf.TensorSpec((), tf.string)], autograph=False)
def _tiff_orientation(block):
    """The orientation in an EXIF block, 1 where the block is damaged or has none."""
    block = tf.io.decode_raw(tf.strings.join([block, b"\0" * 16]), tf.uint8)  # never too short
    block = tf.cast(block, "int64")
    big = tf.reduce_all(tf.equal(block[:4], [77, 77, 0, 42]))  # "MM": the large end first
    little = tf.reduce_all(tf.equal(block[:4], [73, 73, 42, 0]))

    directory = tf.minimum(_number(block[4:8], 4, big), tf.size(block, tf.int64) - 2)
    count = _number(block[directory : directory + 2], 2, big)
    entries = block[directory + 2 : directory + 2 + 12 * count]
    entries = tf.reshape(entries[: tf.size(entries) // 12 * 12], (-1, 12))
    tags, types = _number(entries[:, :2], 2, big), _number(entries[:, 2:4], 2, big)
    found = tf.equal(tags, 0x0112) & tf.equal(types, 3)
    values = tf.boolean_mask(_number(entries[:, 8:10], 2, big), found)
    value = tf.cast(tf.concat([values, [1]], 0)[0], "int32")
    known = (big | little) & (value >= 1) & (value <= 8)
    return tf.where(known, value, 1)


def turned(image, orientation):
    """The upright image, of one `(H, W, C)` as it is stored."""
    return tf.cond(orientation > 1, lambda: _turned_and_flipped(image, orientation), lambda: image)


def _turned_and_flipped(image, orientation):
    image = tf.cond(orientation >= 5, lambda: tf.transpose(image, (1, 0, 2)), lambda: image)
    image = tf.cond(_is_one_of(orientation, (2, 3, 6, 7)), lambda: image[:, ::-1], lambda: image)
    return tf.cond(_is_one_of(orientation, (3, 4, 7, 8)), lambda: image[::-1], lambda: image)


def stored_box(box, upright, orientation):
    """Where a box of the upright image lies in the image as it is stored.

    Args:
        box: Top, left, height and width, int32 `(4,)`.
        upright: Height and width of the upright image, int32 `(2,)`.
        orientation: int32 scalar.
    """
    top, left, height, width = tf.unstack(box)
    left = tf.where(_is_one_of(orientation, (2, 3, 6, 7)), upright[1] - left - width, left)
    top = tf.where(_is_one_of(orientation, (3, 4, 7, 8)), upright[0] - top - height, top)
    return tf.where(orientation >= 5, [left, top, width, height], [top, left, height, width])


def _is_one_of(value, values):
    return tf.reduce_any(tf.equal(value, values))


def _number(digits, width, big):
    """The numbers, int64, of bytes, int64 `(..., width)`; `big`: the large end is first."""
    powers = tf.constant([256**i for i in reversed(range(width))], "int64")
    return tf.reduce_sum(digits * tf.where(big, powers, powers[::-1]), -1)
