"""Every image once, in the right order, with its own label."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from pipelines.batches import evaluation_batches, training_batches

# Each image is of one value, which is also its label, so that a mix-up shows.
LABELS = np.arange(10, dtype="int32")
IMAGES = np.broadcast_to(LABELS[:, None, None, None], (10, 6, 8, 1)).astype("uint8")


def epochs(dataset, count):
    return [[(x.numpy(), y.numpy()) for x, y in dataset] for _ in range(count)]


def test_evaluation_has_every_image_once_and_in_order():
    (batches,) = epochs(evaluation_batches(IMAGES, LABELS, (12, 4), 4), 1)
    assert [x.shape for x, _ in batches] == [(4, 12, 4, 1), (4, 12, 4, 1), (2, 12, 4, 1)]
    np.testing.assert_array_equal(np.concatenate([y for _, y in batches]), LABELS)
    for images, labels in batches:
        assert images.dtype == "uint8"
        assert (images == labels[:, None, None, None]).all()


def test_training_batches_are_whole_shuffled_and_paired_with_their_labels():
    dataset = training_batches(IMAGES, LABELS, (3, 5), 4, seed=7)
    assert dataset.element_spec[0].shape == (4, 3, 5, 1)
    first, second = epochs(dataset, 2)
    assert len(first) == 2  # the two images that fill no batch are left out
    orders = [np.concatenate([y for _, y in batches]) for batches in (first, second)]
    assert all(len(set(order)) == 8 for order in orders)  # none twice
    assert list(orders[0]) != list(orders[1]) and list(orders[0]) != sorted(orders[0])
    for images, labels in first + second:
        assert (images == labels[:, None, None, None]).all()


def test_the_same_seed_gives_the_same_pixels():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (10, 6, 8, 3), "uint8")

    def two_epochs(seed):
        dataset = training_batches(images, LABELS, (5, 7), 3, seed=seed, smallest_crop=0.5)
        return np.stack([x for epoch in epochs(dataset, 2) for x, _ in epoch])

    first, again, other = two_epochs(1), two_epochs(1), two_epochs(2)
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.5
    assert (first[:3] != first[3:]).mean() > 0.5  # another epoch is cropped anew


@pytest.mark.parametrize("batch_size", [0, 11])
def test_a_batch_that_cannot_be_filled_is_refused(batch_size):
    with pytest.raises(ValueError, match="Received: batch_size="):
        training_batches(IMAGES, LABELS, (3, 5), batch_size, seed=0)
