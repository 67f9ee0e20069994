"""Labels as shares of classes, which mixing and smoothing need."""

from pipelines._tensorflow import tf


def one_hot(labels, classes):
    """Integer labels as float32 `(..., classes)`: 1 at the label, 0 elsewhere."""
    return tf.one_hot(labels, classes, dtype="float32")


def smoothed(one_hot, amount):
    """Takes a share of all labels and spreads it evenly over the classes.

    Args:
        one_hot: Float `(..., K)`.
        amount: Float from 0 up to 1.
    """
    return one_hot * (1.0 - amount) + amount / one_hot.shape[-1]
