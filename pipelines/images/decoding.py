"""Encoded images to pixels, by content and by one rule for every kind of file.

The rule: the first frame, turned as its EXIF orientation says, laid on white where it is
transparent, 16 bits a channel divided by 257 (so that 65535 is 255), palettes resolved, and grey
from colours by the weights 0.299, 0.587 and 0.114. JPEG and PNG are decoded by TensorFlow; what
TensorFlow cannot do right, such as CMYK, GIF, WEBP, BMP and TIFF, by Pillow.
"""

import functools
import io
import os

import numpy as np

from pipelines._tensorflow import tf
from pipelines.images.jpeg_window import LARGE, exact, window
from pipelines.images.orientation import (
    has_plain_header,
    jpeg_orientation,
    png_orientation,
    stored_box,
    turned,
)

NOT_INLINE = {"_noinline": True}
WHITE = 255
# 0.299, 0.587, 0.114 in 65536ths, which add up to one, so that grey stays as it is.
LUMA = (19595, 38470, 7471)

# How an image is decoded; the order is that of the branches below.
_JPEG, _PNG, _OTHER = range(3)
_JPEG_START, _PNG_START = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"


def decode(data, channels=3):
    """The pixels of an encoded image, upright. Works in a `tf.data` map and eagerly.

    Args:
        data: Scalar string tensor or bytes, a whole file.
        channels: 3 for RGB or 1 for grey.

    Returns:
        uint8 `(H, W, channels)`.

    Raises:
        tf.errors.InvalidArgumentError: if it cannot be decoded. It does not know the file's name;
            `read_image` does.
    """
    check_channels(channels)
    return _decoder(channels, _pixel_limit())(data)


def decode_crop(data, box, channels=3, least=None):
    """A part of `decode(data, channels)`. Of a JPEG only the rows that are needed are decoded.

    Args:
        data: Scalar string tensor or bytes, a whole file.
        box: int32 `(4,)`: top, left, height and width in pixels of the upright image; or a
            function that is given the upright image's size, int32 `(2,)`, and returns that.
        channels: 3 for RGB or 1 for grey.
        least: `(height, width)` that the part will be resized to, or None. Of a JPEG of 2
            megapixels or more, the part is then decoded at 1/2, 1/4 or 1/8 of its size, where that
            leaves no fewer pixels.

    Returns:
        uint8 `(height, width, channels)`; smaller by such a ratio where `least` allows it.
    """
    check_channels(channels)
    data, limit = tf.convert_to_tensor(data), _pixel_limit()

    def draw(size):
        return tf.cast(box(size) if callable(box) else box, "int32")

    def others():
        image = decode(data, channels)
        top, left, height, width = tf.unstack(draw(tf.shape(image)[:2]))
        return tf.image.crop_to_bounding_box(image, top, left, height, width)

    def any_kind():
        jpeg = tf.equal(_kind(data, limit), _JPEG)
        return tf.cond(jpeg, lambda: _decode_crop_jpeg(data, draw, channels, least), others)

    if tf.inside_function():
        # A graph goes through all operations of the branches that it does not take. Most images are
        # small plain JPEGs: what others need is one operation for them, the call of a function.
        any_kind = tf.function(any_kind, autograph=False, experimental_attributes=NOT_INLINE)
    size = _plain_jpeg_size(data, limit)
    plain = size[0] > 0
    crop = tf.cond(plain, lambda: exact(data, size, draw(size), channels), any_kind)
    return tf.ensure_shape(crop, (None, None, channels))


def read_image(path, channels=3):
    """The pixels of an image file, upright.

    Args:
        path: Path, also of a kind that TensorFlow knows, such as `gs://`.
        channels: 3 for RGB or 1 for grey.

    Returns:
        NumPy uint8 `(H, W, channels)`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it cannot be decoded; names the file and the reason.
    """
    check_channels(channels)
    data = read_file(path)
    try:
        return decode(data, channels).numpy()
    except (tf.errors.OpError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)} {fault(data, error)}") from error


def to_channels(image, channels):
    """A decoded image with so many channels: grey is repeated, colours become grey.

    Args:
        image: uint8 `(..., C)`.
        channels: Integer.

    Raises:
        ValueError: if it has neither so many channels, nor 1, nor 3 for a model of grey images.
    """
    if image.shape[-1] == channels:
        return image
    if image.shape[-1] == 1:
        return tf.repeat(image, channels, axis=-1)
    if image.shape[-1] == 3 and channels == 1:
        return grey(image)
    raise ValueError(
        f"The model takes images of {channels} channels. "
        f"Received: images of {image.shape[-1]} channels"
    )


def read_file(path):
    """The bytes of a file; FileNotFoundError where there is none."""
    path = os.fspath(path)
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read()
    except tf.errors.NotFoundError as error:
        raise FileNotFoundError(f"There is no file {path}") from error


def check_channels(channels):
    """Raises a ValueError unless images can be decoded to so many channels."""
    if channels not in (1, 3):
        raise ValueError(
            "Image files are decoded to 3 channels (RGB) or 1 (grey). "
            f"Received: channels={channels}. Feed images of other channels as arrays."
        )


def fault(data, error):
    """Why bytes could not be decoded, to be put behind the file's name.

    Args:
        data: Bytes of the file.
        error: What `decode` raised.
    """
    if not data:
        return "is empty (0 bytes)."
    try:
        decode_with_pillow(data, 3)
    except ValueError as pillows:
        return f"{pillows}"
    # Pillow is content, so TensorFlow's reason is all there is.
    return f"cannot be decoded: {tensorflow_reason(error)}"


def tensorflow_reason(error):
    """The first line of an error of TensorFlow's, without the place in the graph."""
    return str(getattr(error, "message", error)).split("} ")[-1].split("\n")[0]


@functools.cache
def _decoder(channels, limit):
    """`decode` as one function, which is traced once, however many data sets use it."""

    @tf.function(input_signature=[tf.TensorSpec((), tf.string)], autograph=False)
    def decode(data):
        branches = [
            lambda: turned(tf.io.decode_jpeg(data, channels=channels), jpeg_orientation(data)),
            lambda: turned(_decode_png(data, channels), png_orientation(data)),
            lambda: _decode_other(data, channels),
        ]
        image = tf.switch_case(_kind(data, limit), branches)
        return tf.ensure_shape(image, (None, None, channels))

    return decode


# --- What kind of file it is --------------------------------------------------------------------


def _kind(data, limit):
    """int32 scalar: which branch decodes it. Errors of the header are raised here already."""
    jpeg = tf.equal(tf.strings.substr(data, 0, len(_JPEG_START)), _JPEG_START)
    png = tf.equal(tf.strings.substr(data, 0, len(_PNG_START)), _PNG_START)
    return tf.case(
        [(jpeg, lambda: _kind_of_jpeg(data, limit)), (png, lambda: _kind_of_png(data, limit))],
        default=lambda: tf.constant(_OTHER),
    )


def _kind_of_jpeg(data, limit):
    height, width, components = tf.unstack(tf.image.extract_jpeg_shape(data))
    # Programs store inks inverted. TensorFlow believes that only behind an Adobe marker, and shows
    # others as black; Pillow always does.
    inks = components > 3
    return tf.where(inks | _too_large(height, width, limit), _OTHER, _JPEG)


def _kind_of_png(data, limit):
    sides = tf.io.decode_raw(tf.strings.substr(data, 16, 8), tf.int32, little_endian=False)
    width, height = tf.unstack(tf.ensure_shape(sides, (2,)))
    # TensorFlow 2.21 does not spread fewer than 8 bits over the range of 0 to 255.
    few_bits = _png_bits(data) < 8
    return tf.where(few_bits | _too_large(height, width, limit), _OTHER, _PNG)


def _too_large(height, width, limit):
    """Whether it has more pixels than Pillow reads, which then says how to allow them."""
    if limit is None:
        return tf.constant(False)
    return tf.cast(height, "int64") * tf.cast(width, "int64") > limit


def _pixel_limit():
    try:
        from PIL import Image
    except ModuleNotFoundError:
        return 178_956_970  # Pillow's own, as it comes
    return Image.MAX_IMAGE_PIXELS and 2 * Image.MAX_IMAGE_PIXELS


def _png_bits(data):
    """uint8 scalar: bits a channel."""
    return tf.io.decode_raw(tf.strings.substr(data, 24, 1), tf.uint8)[0]


# --- JPEG and PNG -------------------------------------------------------------------------------


def _plain_jpeg_size(data, limit):
    """Height and width, int32 `(2,)`, of an upright JPEG that is decoded at its own size.

    Both are 0 of any other file, and of some such JPEG too: whatever is not quickly told.
    """
    nothing = tf.zeros((3,), "int32")
    shape = tf.cond(
        has_plain_header(data), lambda: tf.image.extract_jpeg_shape(data), lambda: nothing
    )
    pixels = tf.reduce_prod(tf.cast(shape[:2], "int64"))
    small = pixels < (LARGE if limit is None else min(LARGE, limit + 1))
    return tf.where(small & (shape[2] <= 3), shape[:2], 0)


def _decode_crop_jpeg(data, draw, channels, least):
    orientation = jpeg_orientation(data)
    size = tf.image.extract_jpeg_shape(data)[:2]
    upright = tf.where(orientation >= 5, size[::-1], size)
    box = stored_box(draw(upright), upright, orientation)
    if least is not None:
        least = tf.where(orientation >= 5, tf.constant(least)[::-1], tf.constant(least))
    return turned(window(data, size, box, channels, least), orientation)


def _decode_png(data, channels):
    pixels = tf.cond(
        tf.equal(_png_bits(data), 16),
        lambda: _eight_bits(tf.io.decode_png(data, 4, tf.uint16)),
        lambda: tf.io.decode_png(data, 4),
    )
    transparent = tf.reduce_any(pixels[..., 3] < 255)
    rgb = tf.cond(transparent, lambda: _on_white(pixels), lambda: pixels[..., :3])
    return rgb if channels == 3 else grey(rgb)


def _eight_bits(pixels):
    return tf.cast((tf.cast(pixels, "int32") + 128) // 257, "uint8")


def _on_white(pixels):
    pixels = tf.cast(pixels, "int32")
    colour, alpha = pixels[..., :3], pixels[..., 3:]
    return tf.cast((colour * alpha + WHITE * (255 - alpha) + 127) // 255, "uint8")


def grey(rgb):
    """Grey from colours: uint8 `(..., 3)` to `(..., 1)`."""
    luma = tf.reduce_sum(tf.cast(rgb, "int32") * LUMA, -1, keepdims=True)
    return tf.cast((luma + 32768) // 65536, "uint8")


# --- Everything else ----------------------------------------------------------------------------


def _decode_other(data, channels):
    # Holds Python's lock, unlike TensorFlow's decoders.
    def pixels(data):  # bytes in a graph, an array of them eagerly
        return decode_with_pillow(np.asarray(data, object).item(), channels)

    return tf.ensure_shape(tf.numpy_function(pixels, [data], tf.uint8), (None, None, channels))


def decode_with_pillow(data, channels):
    """As `decode`, by Pillow alone.

    Args:
        data: Bytes.
        channels: 3 or 1.

    Returns:
        NumPy uint8 `(H, W, channels)`.

    Raises:
        ValueError: if it cannot be decoded; the message follows on the file's name.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError as error:
        raise ImportError(
            "Images other than plain JPEG and PNG need Pillow. "
            'Install it with: pip install "keras3-vit[tf]"'
        ) from error
    if not data:
        raise ValueError("is empty (0 bytes).")
    try:
        with Image.open(io.BytesIO(data)) as image:
            pixels = _pillow_pixels(image)
    except UnidentifiedImageError as error:
        if data.startswith((_JPEG_START, _PNG_START)):
            raise ValueError("cannot be decoded: its header is damaged.") from error
        raise ValueError(f"is not an image: it starts with {data[:12]!r}.") from error
    except Image.DecompressionBombError as error:
        raise ValueError(
            f"is refused for its size ({error}) Set `PIL.Image.MAX_IMAGE_PIXELS` to at least half "
            "its number of pixels to read it."
        ) from error
    except (OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"cannot be decoded: {error}") from error
    if channels == 1:
        luma = (pixels.astype("int32") * LUMA).sum(-1, keepdims=True)
        pixels = ((luma + 32768) // 65536).astype("uint8")
    return np.ascontiguousarray(pixels)


def _pillow_pixels(image):
    """uint8 `(H, W, 3)` of the first frame, upright and on white."""
    from PIL import ImageOps

    image.seek(0)
    image.load()
    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I;16"):
        grey = (np.asarray(upright).astype("int32") + 128) // 257
        return np.repeat(grey[..., None], 3, -1).astype("uint8")
    if upright.mode in ("I", "F"):
        raise ValueError(f"its mode {upright.mode!r} has no range that could be scaled to 0..255.")
    if not upright.has_transparency_data:
        return np.asarray(upright.convert("RGB"))
    rgba = np.asarray(upright.convert("RGBA")).astype("int32")
    colour, alpha = rgba[..., :3], rgba[..., 3:]
    return ((colour * alpha + WHITE * (255 - alpha) + 127) // 255).astype("uint8")
