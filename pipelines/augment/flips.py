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
    # Reversing along no axis is a copy, which costs less than a branch of the graph.
    return tf.raw_ops.Reverse(tensor=image, dims=tf.stack([False, mirror, False]))
