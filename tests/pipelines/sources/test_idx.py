"""IDX files against bytes written by hand, and Fashion-MNIST from a folder of them."""

import gzip

import pytest

pytest.importorskip("tensorflow")

from tf_data import once

from pipelines.sources import open_source
from pipelines.sources.fashion_mnist import CLASS_NAMES, fashion_mnist
from pipelines.sources.idx import read_idx

pytestmark = once

# 2 images of 2 x 3: the header says uint8 and three axes, then each side in four bytes.
HEADER = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3])
IMAGES = HEADER + bytes([1, 2, 3, 4, 5, 6, 255, 254, 253, 252, 251, 250])


def folder_of(path, ending="", labels=(9, 0)):
    """Published files with the images of `IMAGES`, and one image in the test part."""
    parts = {
        "train-images-idx3-ubyte": IMAGES,
        "train-labels-idx1-ubyte": bytes([0, 0, 8, 1, 0, 0, 0, 2, *labels]),
        "t10k-images-idx3-ubyte": bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 7, 8]),
        "t10k-labels-idx1-ubyte": bytes([0, 0, 8, 1, 0, 0, 0, 1, 4]),
    }
    path.mkdir()
    for name, content in parts.items():
        content = gzip.compress(content, mtime=0) if ending else content
        (path / f"{name}{ending}").write_bytes(content)
    return path


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_the_array_of_a_file(compress, tmp_path):
    path = tmp_path / "images"
    path.write_bytes(compress(IMAGES))
    array = read_idx(path)
    assert array.dtype == "uint8"
    assert array.tolist() == [[[1, 2, 3], [4, 5, 6]], [[255, 254, 253], [252, 251, 250]]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG", r"begins with 0, 0, 8 .* begins with \[137, 80, 78, 71\]"),
        (b"", r"begins with \[\]"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 0]), r"\[0, 0, 13, 1\]"),  # floats
        (HEADER[:9], "ends within its header of 16 bytes"),
        (IMAGES[:-1], r"should hold 12 bytes, for the shape \(2, 2, 3\). Received: 11 bytes"),
        (IMAGES + b"\0", "Received: 13 bytes"),
        (gzip.compress(IMAGES, mtime=0)[:-9], "is not a whole gzip file"),
    ],
)
def test_what_is_no_whole_file(content, message, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_idx(path)


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_fashion_mnist_from_its_published_files(ending, tmp_path):
    folder = folder_of(tmp_path / "files", ending)
    train = open_source(f"fashion_mnist:{folder}")
    test = open_source(f"fashion_mnist:{folder}", "validation")
    assert train.class_names == test.class_names == CLASS_NAMES
    assert train.labels.tolist() == [9, 0] and test.labels.tolist() == [4]
    assert train.read(1).numpy()[..., 0].tolist() == [[255, 254, 253], [252, 251, 250]]
    assert test.read(0).numpy().tolist() == [[[7], [8]]]
    assert str(folder) in train.name


def test_files_that_are_not_fashion_mnist(tmp_path):
    with pytest.raises(FileNotFoundError, match="no train-images-idx3-ubyte.gz in .*dataset-fash"):
        open_source(f"fashion_mnist:{tmp_path}")
    with pytest.raises(FileNotFoundError, match="There is no file .*nothing"):
        read_idx(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"labels from 0 to 9. .* labels of shape \(2,\) up to 10"):
        fashion_mnist("train", folder_of(tmp_path / "letters", labels=(10, 0)))
    folder = folder_of(tmp_path / "few")
    (folder / "train-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 1, 4]))
    with pytest.raises(ValueError, match=r"shape \(2, 2, 3\), labels of shape \(1,\)"):
        fashion_mnist("train", folder)
    with pytest.raises(ValueError, match="options .* Received: 'colour'"):
        open_source(f"fashion_mnist:{folder},colour=red")
