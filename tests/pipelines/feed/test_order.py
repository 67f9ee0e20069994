"""The order of training: permutations that any step, on any host, can be asked for."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from tf_data import once

from pipelines._tensorflow import tf
from pipelines.feed.order import Order

pytestmark = once


def images(order, steps):
    return [order.images(tf.constant(step, "int64")).numpy().tolist() for step in steps]


@pytest.mark.parametrize("count, batch_size", [(1, 1), (2, 2), (7, 2), (1000, 64)])
def test_an_epoch_has_no_image_twice(count, batch_size):
    order = Order(count, batch_size, seed=5)
    assert order.steps_per_epoch == count // batch_size
    epochs = np.array(images(order, range(3 * order.steps_per_epoch))).reshape(3, -1)
    for epoch in epochs:
        assert len(set(epoch)) == len(epoch) and 0 <= epoch.min() and epoch.max() < count
    if count > 2:
        assert not np.array_equal(epochs[0], epochs[1])
        left_out = [set(range(count)) - set(epoch) for epoch in epochs]
        assert count % batch_size == 0 or any(left != left_out[0] for left in left_out)


def test_orders_look_random():
    order = Order(400, 400, seed=1)
    first, second = (np.array(images(order, [epoch])[0]) for epoch in (0, 1))
    for a, b in [(np.arange(400), first), (np.arange(400), second), (first, second)]:
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.2
    places = np.array([images(Order(8, 8, seed=seed), [0])[0] for seed in range(300)])
    counts = np.array([(places == image).sum(0) for image in range(8)])
    assert counts.sum() == 2400 and 15 < counts.min() and counts.max() < 70  # 37.5 on average


def test_hosts_share_the_rows_of_every_batch():
    one = Order(50, 12, seed=3)
    for step in (0, 2, 3, 17):
        parts = [Order(50, 12, 3, hosts=3, host=host) for host in range(3)]
        rows = [images(part, [step])[0] for part in parts]
        assert [len(part) for part in rows] == [4, 4, 4]
        assert sum(rows, []) == images(one, [step])[0]
        positions = [part.positions(step).numpy().tolist() for part in parts]
        assert sum(positions, []) == list(range(12 * step, 12 * step + 12))


def test_seeds():
    order, other = Order(9, 3, seed=0), Order(9, 3, seed=1)
    seeds = {
        tuple(o.image_seed(tf.constant(p, "int64")).numpy()) for o in (order, other) for p in (0, 1)
    }
    assert len(seeds) == 4
    step = tf.constant(4, "int64")
    hosts = [Order(9, 3, 0, hosts=3, host=host) for host in range(3)]
    assert len({tuple(o.batch_seed(step).numpy()) for o in hosts}) == 1
    assert len({tuple(o.batch_seed(step, each_host=True).numpy()) for o in hosts}) == 3
    assert images(order, range(3)) != images(other, range(3))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"batch_size": 10}, "from 1 to the number of training images, 9. Received: batch_size=10"),
        ({"batch_size": 0}, "Received: batch_size=0"),
        ({"batch_size": 4, "hosts": 3}, "multiple of the number of hosts"),
        ({"batch_size": 4, "hosts": 2, "host": 2}, "Received: .*host=2"),
        ({"batch_size": 4, "seed": -1}, "Received: seed=-1"),
    ],
)
def test_orders_that_cannot_be(arguments, message):
    with pytest.raises(ValueError, match=message):
        Order(9, **arguments)
