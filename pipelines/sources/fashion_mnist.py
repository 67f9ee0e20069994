"""Fashion-MNIST: the part that comes with the package, and all of it from a folder."""

import os
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
_PARTS = {"train": "train", "test": "t10k"}  # how the published files begin


def fashion_mnist(split, folder=None):
    """Images and labels of Fashion-MNIST (arXiv 1708.07747; MIT licence).

    Args:
        split: `"train"` or `"test"`. The embedded part has 1,000 images of each class from the
            official training set, and the whole official test set.
        folder: None for the embedded part, or the folder of the published files,
            `train-images-idx3-ubyte.gz` and so on, compressed or not: 60,000 and 10,000 images.

    Returns:
        Images, uint8 `(n, 28, 28, 1)` of 0 to 255, and labels, int32 `(n,)`, indices into
        `CLASS_NAMES`.

    Raises:
        FileNotFoundError: if the folder does not have the files.
        ValueError: if there is no such split, or the files do not hold what they should.
    """
    if split not in _PARTS:
        raise ValueError(f"`split` must be 'train' or 'test'. Received: split={split!r}")
    if folder is not None:
        return _published(folder, _PARTS[split])
    with np.load(_FILE, allow_pickle=False) as arrays:
        images, labels = arrays[f"x_{split}"], arrays[f"y_{split}"]
    return images[..., None], labels.astype("int32")


def fashion_mnist_source(split, folder=None):
    """The same as a `Source`."""
    from pipelines.sources.arrays import arrays  # which needs TensorFlow

    name = "fashion_mnist" if folder is None else f"fashion_mnist:{folder}"
    return arrays(*fashion_mnist(split, folder), CLASS_NAMES, f"{name} ({split})")


def _published(folder, part):
    from pipelines.sources.idx import read_idx  # which needs TensorFlow

    images = read_idx(_published_file(folder, f"{part}-images-idx3-ubyte"))
    labels = read_idx(_published_file(folder, f"{part}-labels-idx1-ubyte"))
    if images.ndim != 3 or labels.shape != images.shape[:1] or labels.max(initial=0) > 9:
        raise ValueError(
            "The files must hold images (n, 28, 28) and n labels from 0 to 9. Received: images of "
            f"shape {images.shape}, labels of shape {labels.shape} up to {labels.max(initial=0)} "
            f"in {folder}"
        )
    return images[..., None], labels.astype("int32")


def _published_file(folder, name):
    from pipelines._tensorflow import tf

    paths = [os.path.join(folder, name + ending) for ending in (".gz", "")]
    found = [path for path in paths if tf.io.gfile.exists(path)]
    if not found:
        raise FileNotFoundError(
            f"There is no {name}.gz in {folder!r}. The folder must have the four files of "
            "Fashion-MNIST as they are published; Debian's package dataset-fashion-mnist puts "
            "them into /usr/share/datasets/fashion-mnist."
        )
    return found[0]
