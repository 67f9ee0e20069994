"""Mixup and CutMix: each image of a batch with the one before it, and their labels likewise.

The partner is the batch rolled by one, as in the code of AugReg, and not a permutation: the order
of a batch is random as it is.
"""

from pipelines._tensorflow import tf
from pipelines.augment.seeds import children


def mixup(images, one_hot, seed, alpha, each=False):
    """Averages images of a batch, two by two (arXiv 1710.09412).

    The image's own share is drawn from Beta(alpha, alpha), and its complement taken where that is
    larger: no less than a half.

    Args:
        images: `(B, H, W, C)`.
        one_hot: Float `(B, K)`.
        seed: Integer tensor `(2,)`.
        alpha: Positive number.
        each: Whether each image has a share of its own, instead of one for the batch.

    Returns:
        Images of the same dtype, uint8 rounded to the nearest, and float labels.
    """
    share = _at_least_half(beta(_count(images, each), seed, alpha))
    return _average(images, share[:, None, None, None]), _average(one_hot, share[:, None])


def cutmix(images, one_hot, seed, alpha, each=False):
    """Replaces a rectangle of each image with that of another (arXiv 1905.04899).

    The rectangle has the image's aspect and, before what is beyond the border is taken off, a share
    of its area that is drawn from Beta(alpha, alpha). Labels go by the pixels that were replaced.

    Args:
        images: `(B, H, W, C)`.
        one_hot: Float `(B, K)`.
        seed: Integer tensor `(2,)`.
        alpha: Positive number.
        each: Whether each image has a rectangle of its own, instead of one for the batch.

    Returns:
        Images of the same dtype, and float labels.
    """
    area, place = children(seed, 2)
    count = _count(images, each)
    inside = _rectangles(tf.shape(images)[1:3], beta(count, area, alpha), place)  # (B or 1, H, W)
    share = 1.0 - tf.reduce_mean(tf.cast(inside, "float32"), (1, 2))
    mixed = tf.where(inside[..., None], tf.roll(images, 1, axis=0), images)
    return mixed, _average(one_hot, share[:, None])


def mixup_or_cutmix(images, one_hot, seed, mixup_alpha, cutmix_alpha, each=False):
    """Mixup or CutMix, each in half of the batches, or for half of the images where `each`."""
    choose, own = children(seed, 2)
    take = tf.random.stateless_uniform((_count(images, each),), choose) < 0.5

    def mixed_up():
        return mixup(images, one_hot, own, mixup_alpha, each)

    def cut():
        return cutmix(images, one_hot, own, cutmix_alpha, each)

    if not each:
        return tf.cond(take[0], mixed_up, cut)
    (blends, blended), (patched, shares) = mixed_up(), cut()
    images = tf.where(take[:, None, None, None], blends, patched)
    return images, tf.where(take[:, None], blended, shares)


def beta(count, seed, alpha):
    """`count` numbers from Beta(alpha, alpha), float32."""
    first, second = children(seed, 2)
    gammas = tf.random.stateless_gamma((2, count), first, alpha + 1.0)
    # G(alpha) is G(alpha + 1) * U^(1 / alpha), and with a small alpha too small for a float: the
    # ratio g / (g + h) is taken from the logarithms.
    uniforms = 1.0 - tf.random.stateless_uniform((2, count), second)  # never 0
    logarithms = tf.math.log(gammas) + tf.math.log(uniforms) / alpha
    return tf.sigmoid(logarithms[0] - logarithms[1])


def _count(images, each):
    return tf.shape(images)[0] if each else 1


def _at_least_half(share):
    return tf.maximum(share, 1.0 - share)


def _average(values, share):
    """`share` of the values and the rest of those rolled by one."""
    floats = tf.cast(values, "float32")
    mixed = share * floats + (1.0 - share) * tf.roll(floats, 1, axis=0)
    if values.dtype == tf.uint8:
        mixed = tf.round(mixed)
    return tf.cast(mixed, values.dtype)


def _rectangles(sides, area, seed):
    """Rectangles of shares of the area, about pixels that are each as likely: bool `(n, H, W)`."""
    lengths = tf.cast(sides, "float32")
    half = tf.cast(tf.round(tf.sqrt(area)[:, None] * lengths / 2), "int32")  # (n, 2)
    place = tf.random.stateless_uniform((tf.shape(area)[0], 2), seed) * lengths
    middle = tf.minimum(tf.cast(place, "int32"), sides - 1)
    start, stop = middle - half, middle + half
    rows, columns = tf.range(sides[0]), tf.range(sides[1])
    in_rows = (rows >= start[:, :1]) & (rows < stop[:, :1])
    in_columns = (columns >= start[:, 1:]) & (columns < stop[:, 1:])
    return in_rows[:, :, None] & in_columns[:, None, :]
