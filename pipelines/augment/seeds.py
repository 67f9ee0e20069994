"""Seeds: integer tensors `(2,)`. The same seed gives the same numbers, in any thread or order."""

from pipelines._tensorflow import tf


def children(seed, count):
    """`count` seeds that follow from one, as a list; their streams have nothing in common.

    Adding 1 to a seed would not do: the seeds of neighbouring images often differ by 1.
    """
    return tf.unstack(tf.random.split(tf.convert_to_tensor(seed), count))
