"""Ragged batches filled up with rows of weight zero, so that all devices have equally many."""

import keras

from pipelines._tensorflow import tf


def pad_batches(dataset, rows=None, multiple=1):
    """Fills every batch of a dataset up with rows of zeros that have the weight 0.

    Args:
        dataset: `tf.data.Dataset` of batches `(x, y)` or `(x, y, weight)`.
        rows: Integer, how many each shall have, known when the step is compiled; None is the next
            multiple.
        multiple: Integer that shall divide the rows where `rows` is None.

    Returns:
        `tf.data.Dataset` of `(x, y, weight)`, float32 weights `(rows,)` where there were none.
    """

    def pad(x, y=None, weight=None):
        count = _rows(x)
        if weight is None:
            weight = tf.ones((count,), "float32")
        return _padded((x, y, weight), count, rows, multiple)

    return dataset.map(pad, num_parallel_calls=tf.data.AUTOTUNE)


def pad_inputs(dataset, rows=None, multiple=1):
    """The same for a dataset of batches to predict.

    Args:
        dataset: `tf.data.Dataset` of batches `x`, `(x, y)` or `(x, y, weight)`.
        rows: As of `pad_batches`.
        multiple: As of `pad_batches`.

    Returns:
        `(dataset, counts)`: batches of x alone, and a list to which the true number of rows of each
        batch is added as it is read.
    """
    counts = []

    def pad(*batch):
        x = batch[0]
        (count,) = tf.numpy_function(_note, [_rows(x)], [tf.int32])
        count.set_shape(())
        return (_padded(x, count, rows, multiple),)

    def _note(count):
        counts.append(int(count))
        return count

    return dataset.map(pad), counts


def _rows(x):
    return tf.shape(keras.tree.flatten(x)[0])[0]


def _padded(structure, count, rows, multiple):
    wanted = -(-count // multiple) * multiple if rows is None else rows

    def pad(tensor):
        if tensor is None:
            return None
        after = [[0, wanted - count]] + [[0, 0]] * (len(tensor.shape) - 1)
        result = tf.pad(tensor, after)
        result.set_shape((rows, *tensor.shape[1:]))
        return result

    return keras.tree.map_structure(pad, structure)
