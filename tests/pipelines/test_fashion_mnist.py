"""The embedded data set is what its page says."""

import numpy as np
import pytest

from pipelines.sources.fashion_mnist import CLASS_NAMES, fashion_mnist


@pytest.mark.parametrize("split", ["train", "test"])
def test_ten_classes_of_a_thousand(split):
    images, labels = fashion_mnist(split)
    assert images.shape == (10_000, 28, 28, 1) and images.dtype == "uint8"
    assert labels.dtype == "int32"
    np.testing.assert_array_equal(np.bincount(labels), [1000] * len(CLASS_NAMES))


def test_the_splits_share_no_image():
    train, test = (fashion_mnist(split)[0].reshape(10_000, -1) for split in ("train", "test"))
    assert len(np.unique(train, axis=0)) > 9_990
    assert not {row.tobytes() for row in train} & {row.tobytes() for row in test}


def test_trousers_are_taller_than_wide_and_bags_are_not():
    # Labels belong to their images: the middle column of trousers is lit from top to bottom.
    images, labels = fashion_mnist("test")
    lit = {name: (images[labels == i] > 50).mean(0)[..., 0] for i, name in enumerate(CLASS_NAMES)}
    assert lit["Trouser"][2:26, 2].mean() < 0.05 < lit["Bag"][14:24, 2].mean()


def test_another_split_is_refused():
    with pytest.raises(ValueError, match="Received: split='validation'"):
        fashion_mnist("validation")
