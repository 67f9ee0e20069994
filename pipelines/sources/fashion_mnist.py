"""The part of Fashion-MNIST that comes with the package: 10,000 + 10,000 images."""

import pathlib

import numpy as np

CLASS_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)

_FILE = pathlib.Path(__file__).parent.parent / "data" / "fashion_mnist_10k.npz"


def fashion_mnist(split):
    """Images and labels of the embedded Fashion-MNIST (arXiv 1708.07747; MIT licence).

    Args:
        split: `"train"`, 1,000 images of each class from the official training set, or `"test"`,
            the whole official test set.

    Returns:
        Images, uint8 `(10000, 28, 28, 1)` of 0 to 255, and labels, int32 `(10000,)`, indices into
        `CLASS_NAMES`.

    Raises:
        ValueError: if there is no such split.
    """
    if split not in ("train", "test"):
        raise ValueError(f"`split` must be 'train' or 'test'. Received: split={split!r}")
    with np.load(_FILE, allow_pickle=False) as arrays:
        images, labels = arrays[f"x_{split}"], arrays[f"y_{split}"]
    return images[..., None], labels.astype("int32")


def fashion_mnist_source(split):
    """The same as a `Source`."""
    from pipelines.sources.arrays import arrays  # which needs TensorFlow

    return arrays(*fashion_mnist(split), CLASS_NAMES, f"fashion_mnist ({split})")
