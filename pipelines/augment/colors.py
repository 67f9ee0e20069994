"""Operations on the values of an image and not on its places: uint8 `(H, W, C)` in and out.

Those of Pillow's ImageOps and ImageEnhance, which AutoAugment and RandAugment took their names
from. Results are cut to whole numbers and not rounded, as in the recipes' own code.
"""

from pipelines._tensorflow import tf
from pipelines.augment.patches import rectangle
from pipelines.images.decoding import grey


def auto_contrast(image):
    """Stretches every channel to 0..255; a channel of one value stays."""
    values = tf.cast(image, "float32")
    low, high = tf.reduce_min(values, (0, 1)), tf.reduce_max(values, (0, 1))
    stretched = (values - low) * (255.0 / tf.maximum(high - low, 1.0))
    return _to_uint8(tf.where(high > low, stretched, values))


def equalize(image):
    """Spreads the values of every channel so that each is about as frequent as any other."""
    channels = image.shape[-1]
    shelf = tf.cast(image, "int32") + 256 * tf.range(channels)  # one histogram a channel
    counts = tf.raw_ops.DenseBincount(
        input=tf.reshape(shelf, [-1]), size=256 * channels, weights=tf.constant([], "int32")
    )
    counts = tf.reshape(counts, (channels, 256))
    below = tf.cumsum(counts, axis=1, exclusive=True)
    pixels = tf.reduce_sum(counts, 1, keepdims=True)
    # The count of the highest value present is not to be spread: it goes to 255 by itself.
    highest = tf.reduce_max(tf.where(counts > 0, tf.range(256), 0), 1, keepdims=True)
    step = (pixels - tf.gather(counts, highest, axis=1, batch_dims=1)) // 255
    table = (below + step // 2) // tf.maximum(step, 1)
    table = tf.where(step > 0, tf.minimum(table, 255), tf.range(256))
    return tf.gather(tf.reshape(tf.cast(table, "uint8"), [-1]), shelf)


def invert(image):
    """255 minus the image."""
    return 255 - image


def posterize(image, bits):
    """Keeps the highest bits of every value; at least one."""
    # TensorFlow shifts a byte by 7 at most, so at 0 bits the recipes' code kept one as well.
    shift = tf.constant(min(max(8 - bits, 0), 7), "uint8")
    return tf.bitwise.left_shift(tf.bitwise.right_shift(image, shift), shift)


def solarize(image, threshold):
    """Inverts values from a threshold on; one above 255 leaves the image as it is."""
    if threshold > 255:
        return image
    return tf.where(image < threshold, image, 255 - image)


def solarize_add(image, addition, threshold=128):
    """Adds to values below a threshold."""
    brighter = tf.minimum(tf.cast(image, "int32") + addition, 255)
    return tf.where(image < threshold, tf.cast(brighter, "uint8"), image)


def color(image, factor):
    """From grey at 0 over the image at 1 to colours that are too strong."""
    return blend(grayscale(image), image, factor)


def contrast(image, factor):
    """From the mean grey at 0 over the image at 1 to a contrast that is too strong.

    The recipes' code has the number of pixels over 256 (196 at 224 x 224) where Pillow and this
    function have the mean of the grey image.
    """
    mean = tf.round(tf.reduce_mean(tf.cast(grayscale(image), "float32")))
    return blend(mean, image, factor)


def brightness(image, factor):
    """From black at 0 over the image at 1 to a light that is too strong."""
    return blend(0.0, image, factor)


def sharpness(image, factor):
    """From a blurred image at 0 over the image at 1 to edges that are too sharp."""
    channels = image.shape[-1]
    kernel = tf.constant([[1, 1, 1], [1, 5, 1], [1, 1, 1]], "float32") / 13.0
    kernel = tf.tile(kernel[:, :, None, None], (1, 1, channels, 1))
    values = tf.cast(image, "float32")
    blurred = tf.nn.depthwise_conv2d(values[None], kernel, (1, 1, 1, 1), "SAME")[0]
    sides = tf.shape(image)[:2]
    inside = rectangle(sides, (1, 1), sides - 1)[..., None]
    # The outermost pixels lack neighbours to be blurred with and stay. 1e-3: sums of thirteenths.
    return blend(tf.where(inside, tf.floor(blurred + 1e-3), values), image, factor)


def grayscale(image):
    """Grey in all channels; an image of one channel is grey already."""
    if image.shape[-1] == 1:
        return image
    return tf.broadcast_to(grey(image), tf.shape(image))


def blend(start, image, factor):
    """`start` at 0, `image` at 1, and on along the same line above 1, within 0..255."""
    start, image = tf.cast(start, "float32"), tf.cast(image, "float32")
    return _to_uint8(start + factor * (image - start))


def _to_uint8(values):
    return tf.cast(tf.clip_by_value(values, 0.0, 255.0), "uint8")
