"""One piece of work that may fail inside a data set, without the end of all others."""

from pipelines._tensorflow import tf


def attempt(function, instead, *values):
    """`function(*values)`; where that fails, `instead()`, which gives the same kinds of tensors.

    To ignore the errors of all elements together would ignore those of a damaged file too, which
    come again and again.
    """
    made = tf.data.Dataset.from_tensors(values).map(function).ignore_errors()
    other = tf.data.Dataset.from_tensors(0).map(lambda _: instead())
    return made.concatenate(other).take(1).get_single_element()
