"""Left to right, or not."""

from pipelines._tensorflow import tf


def random_flip(image, seed, probability=0.5):
    """Mirrors an image left to right with a probability.

    Args:
        image: `(H, W, C)`.
        seed: Integer tensor `(2,)`.
        probability: Float from 0 to 1.
    """
    mirror = tf.random.stateless_uniform((), seed) < probability
    return tf.cond(mirror, lambda: tf.reverse(image, [1]), lambda: image)
