"""Ragged batches filled up: true rows first, then rows of weight 0."""

import keras
import numpy as np
import pytest

from pipelines._tensorflow import tf
from pipelines.distribution.padding import pad_batches, pad_inputs

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="tf.data alone, the same on every backend"
)


def batches(count, batch_size):
    x = np.arange(count * 6, dtype="float32").reshape(count, 2, 3) + 1
    y = np.arange(count, dtype="int32") + 1
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(batch_size)


@pytest.mark.parametrize(("count", "batch_size"), [(8, 4), (7, 4), (1, 4), (9, 3)])
def test_every_row_once_and_zeros_after(count, batch_size):
    found = list(pad_batches(batches(count, batch_size), rows=batch_size).as_numpy_iterator())
    x, y, weight = (np.concatenate(parts) for parts in zip(*found, strict=True))
    assert len(x) == -(-count // batch_size) * batch_size
    np.testing.assert_array_equal(weight, np.arange(len(x)) < count)
    np.testing.assert_array_equal(y[:count], np.arange(count) + 1)
    assert not x[count:].any() and not y[count:].any()


def test_every_size_is_known_when_the_step_is_compiled():
    spec = pad_batches(batches(7, 4), rows=4).element_spec
    assert [part.shape.as_list() for part in spec] == [[4, 2, 3], [4], [4]]


def test_the_next_multiple_where_no_size_is_given():
    found = list(pad_batches(batches(7, 3), multiple=2).as_numpy_iterator())
    assert [len(x) for x, _, _ in found] == [4, 4, 2]


def test_weights_that_are_there_stay():
    weighted = batches(3, 2).map(lambda x, y: (x, y, tf.cast(y, "float32") / 2))
    found = list(pad_batches(weighted, rows=2).as_numpy_iterator())
    assert [weight.tolist() for _, _, weight in found] == [[0.5, 1.0], [1.5, 0.0]]


def test_inputs_to_predict_are_counted():
    padded, counts = pad_inputs(batches(7, 4), rows=4)
    assert [x.shape for (x,) in padded.as_numpy_iterator()] == [(4, 2, 3), (4, 2, 3)]
    assert counts == [4, 3]
