"""The words for sources, and what they open."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from image_files import flat, write, write_folder
from tf_data import once

from pipelines.sources import open_source
from pipelines.sources.fashion_mnist import CLASS_NAMES

pytestmark = once


def test_a_folder_with_or_without_parts(tmp_path):
    root = write_folder(tmp_path / "whole", {"a": [1], "b": [2, 3]})
    assert open_source(root).count == 3
    assert open_source(root, "validation") is None
    for name in ("val", "Validation", "test"):
        folder = tmp_path / name
        write_folder(folder / "Train", {"a": [1], "b": [2, 3]})
        write_folder(folder / name, {"b": [4]})
        train = open_source(str(folder), "train")
        validation = open_source(str(folder), "validation", train.class_names)
        assert train.count == 3 and validation.labels.tolist() == [1]
    write_folder(tmp_path / "only" / "train", {"a": [1], "b": [2]})
    assert open_source(tmp_path / "only").count == 2
    assert open_source(tmp_path / "only", "validation") is None


def test_options_follow_after_commas(tmp_path):
    assert open_source(write_folder(tmp_path / "a,b=c", {"x": [1], "y": [2]})).count == 2
    root = write_folder(tmp_path / "plain", {"1": [1], "0": [2]})
    source = open_source(f"{root},folder_is_index=true")
    assert source.class_names == ("0", "1")
    with pytest.raises(ValueError, match=r"options \['folder_is_index'\]. Received: 'colour'"):
        open_source(f"{root},colour=red")


def test_tables_and_arrays(tmp_path):
    write(tmp_path / "1.png", flat(1))
    path = tmp_path / "t.CSV"
    path.write_text("path,what,split\n1.png,a,train\n1.png,b,test\n")
    assert open_source(f"{path},label_column=what").class_names == ("a", "b")
    assert open_source(f"{path},label_column=what", "validation").labels.tolist() == [1]
    images, labels = np.zeros((4, 3, 3, 1), "uint8"), np.array([0, 1, 1, 0])
    assert open_source((images, labels)).count == 4
    assert open_source((images, labels), "validation") is None
    named = open_source((images, labels), class_names=("x", "y"))
    assert open_source(named) is named and named.class_names == ("x", "y")
    np.savez(tmp_path / "a.npz", x_train=images, y_train=labels, x_val=images[:1], y_val=[1])
    assert open_source(tmp_path / "a.npz").count == 4
    assert open_source(tmp_path / "a.npz", "validation").labels.tolist() == [1]


def test_the_data_that_come_with_the_package():
    train, test = (open_source("fashion_mnist", split) for split in ("train", "validation"))
    assert train.class_names == test.class_names == CLASS_NAMES
    assert train.count == test.count == 10_000


def test_what_is_no_source():
    with pytest.raises(FileNotFoundError, match="no folder 'nowhere'. A source is a"):
        open_source("nowhere")
    with pytest.raises(FileNotFoundError, match="No TFRecord file matches nothing-"):
        open_source("records:nothing-*")
    with pytest.raises(TypeError, match="Received: source=3"):
        open_source(3)
    with pytest.raises(ValueError, match=r"as \(images, labels\), .* Received: 3 parts"):
        open_source(("images", "labels", "names"))
    with pytest.raises(ValueError, match="Received: split='test'"):
        open_source("fashion_mnist", "test")
