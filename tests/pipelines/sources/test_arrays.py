"""Arrays and files of them."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from tf_data import once

from pipelines._tensorflow import tf
from pipelines.sources.arrays import array_file, arrays, has_validation

pytestmark = once

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 4, 6, 3), "uint8")
LABELS = np.array([2, 0, 1, 2, 1])


def test_images_are_given_as_they_are():
    source = arrays(IMAGES, LABELS)
    assert not source.encoded and source.class_names == ("0", "1", "2")
    assert source.labels.tolist() == LABELS.tolist()
    for i in range(5):
        np.testing.assert_array_equal(source.read(tf.constant(i, "int64")), IMAGES[i])
    grey = arrays(IMAGES[..., 0], LABELS[:, None], ("a", "b", "c"))
    assert grey.read(tf.constant(1, "int64")).shape == (4, 6, 1)
    assert grey.labels.shape == (5,) and grey.class_names == ("a", "b", "c")


def test_an_array_file_has_two_splits(tmp_path):
    path = tmp_path / "arrays.npz"
    np.savez(path, x_train=IMAGES, y_train=LABELS, x_test=IMAGES[:2], y_test=[3, 0])
    assert has_validation(path)
    train, validation = array_file(path), array_file(path, "validation")
    assert train.class_names == validation.class_names == ("0", "1", "2", "3")
    assert validation.labels.tolist() == [3, 0]
    names = ("x", "y", "z")
    np.savez(path, images=IMAGES, labels=LABELS, class_names=names)
    assert array_file(path).class_names == names and not has_validation(path)
    other = array_file(path, class_names=("w", "z", "y", "x"))
    assert [other.class_names[label] for label in other.labels] == ["z", "x", "y", "z", "y"]
    with pytest.raises(ValueError, match="not among .*: 'x', 'y'"):
        array_file(path, class_names=("z", "Y", "X"))
    with pytest.raises(ValueError, match="'x_val' and 'y_val'.*Received: \\['images'"):
        array_file(path, "validation")
    np.savez(path, images=IMAGES, labels=0 * LABELS)
    with pytest.raises(ValueError, match="only one class in .*arrays.npz: '0'"):
        array_file(path)
    assert array_file(path, class_names=("x", "y")).labels.tolist() == [0] * 5
    with pytest.raises(FileNotFoundError, match="none.npz"):
        array_file(tmp_path / "none.npz")


@pytest.mark.parametrize(
    "images, labels, names, message",
    [
        (IMAGES / 255.0, LABELS, None, "must be uint8 .*dtype=float64"),
        (IMAGES[0, 0], LABELS, None, "must be uint8"),
        (IMAGES, LABELS[:4], None, "each of the 5 images"),
        (IMAGES, LABELS, ("a", "b"), r"Label 2 at index 0 .* classes are 0\.\.1\."),
        (IMAGES, LABELS + 1, ("a", "b", "c"), "Do the labels start at 1"),
        (IMAGES, LABELS - 1, None, "Label -1 at index 1"),
        (IMAGES, LABELS / 2, ("a", "b"), "dtype float64"),
        (IMAGES[:0], LABELS[:0], None, "no images"),
        (IMAGES, np.full((5, 2), [0, 0.5]), None, r"must be 0 or 1. Received: 0.5 at \[0, 1\]"),
        (IMAGES, np.eye(5), ("a", "b"), r"each of the 2 classes. Received: .*\(5, 5\)"),
    ],
)
def test_arrays_that_do_not_fit(images, labels, names, message):
    with pytest.raises(ValueError, match=message):
        arrays(images, labels, names)
