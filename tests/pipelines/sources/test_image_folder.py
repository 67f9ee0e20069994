"""Folders of images: what counts as an image, and which label it gets."""

import shutil

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from image_files import flat, write, write_folder
from tf_data import once

from pipelines._tensorflow import tf
from pipelines.sources import folders
from pipelines.sources.image_folder import image_folder

pytestmark = once


def contents(source):
    """`{path in the folder: (class name, bytes)}`."""
    found = {}
    for i in range(source.count):
        data = source.read(tf.constant(i, "int64")).numpy()
        assert source.origin(i).endswith("/" + source.key(i))
        found[source.key(i)] = (source.class_names[source.labels[i]], data)
    return found


def test_images_belong_to_the_folder_they_are_in(tmp_path):
    root = write_folder(tmp_path, {"b": [3, 4], "a": [1, 2]})
    write(tmp_path / "a" / "deep" / "er" / "x.png", flat(9))
    source = image_folder(root)
    assert source.class_names == ("a", "b") and source.count == 5
    assert contents(source) == {
        "a/000.png": ("a", flat(1)),
        "a/001.png": ("a", flat(2)),
        "a/deep/er/x.png": ("a", flat(9)),
        "b/000.png": ("b", flat(3)),
        "b/001.png": ("b", flat(4)),
    }
    assert contents(image_folder(tmp_path)) == contents(image_folder(root + "/"))


def test_suffixes_of_any_case_count_and_others_are_said(tmp_path):
    write_folder(tmp_path, {"b": [1]})
    for name in ("1.JPG", "2.jpeg", "3.Png", "4.jpg.bak", "5", "héllo 谷歌 #1%.webp"):
        write(tmp_path / "a" / name, flat(2))
    with pytest.warns(UserWarning, match=r"left out 2 files .*1 of .bak, 1 of no suffix"):
        source = image_folder(tmp_path)
    assert {path for path in contents(source) if path.startswith("a")} == {
        "a/1.JPG",
        "a/2.jpeg",
        "a/3.Png",
        "a/héllo 谷歌 #1%.webp",
    }


def test_entries_of_systems_are_no_images_and_are_named_once(tmp_path, capfd):
    write_folder(tmp_path, {"a": [1], "b": [2]})
    hidden = ("a/.DS_Store", "a/Thumbs.db", "a/desktop.ini", "a/._0.png", ".git/x.png")
    for name in (*hidden, "__MACOSX/a/0.png", "b/.thumbnails/0.png"):
        write(tmp_path / name, b"\0\5\x16\7")
    for _ in range(2):
        assert set(contents(image_folder(tmp_path))) == {"a/000.png", "b/000.png"}
    said = capfd.readouterr().err
    assert said.count("ignored the hidden entries") == 1 and "'a/.DS_Store'" in said
    assert str(tmp_path) in folders._named


def test_labels_of_training_are_kept_in_validation(tmp_path):
    write_folder(tmp_path / "train", {"a": [1], "b": [2], "c": [3]})
    names = image_folder(tmp_path / "train").class_names
    write_folder(tmp_path / "val", {"a": [4], "c": [5]})
    source = image_folder(tmp_path / "val", names)
    assert source.labels.tolist() == [0, 2] and source.class_names == names
    (tmp_path / "val" / "b").mkdir()
    with pytest.warns(UserWarning, match="no image in the folders 'b'"):
        assert image_folder(tmp_path / "val", names).labels.tolist() == [0, 2]
    shutil.rmtree(tmp_path / "val" / "a")  # one class is enough, where others are known
    with pytest.warns(UserWarning, match="'b'"):
        assert image_folder(tmp_path / "val", names).labels.tolist() == [2]
    write_folder(tmp_path / "val", {"d": [6]})
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="not among the 3 .*'d'"):
        image_folder(tmp_path / "val", names)


def test_numbers_are_sorted_as_text_with_a_warning_or_are_the_labels(tmp_path):
    root = write_folder(tmp_path, {str(i): [i] for i in (0, 1, 2, 10)})
    with pytest.warns(UserWarning, match="'0', '1', '10', '2'.*folder_is_index=True"):
        assert image_folder(root).class_names == ("0", "1", "10", "2")
    source = image_folder(root, folder_is_index=True)
    assert dict(zip([source.key(i)[:-8] for i in range(4)], source.labels, strict=True)) == {
        "0": 0,
        "1": 1,
        "10": 10,
        "2": 2,
    }
    assert source.class_names == tuple(map(str, range(11)))
    padded = write_folder(tmp_path / "padded", {"02": [1], "10": [2]})
    assert image_folder(padded).class_names == ("02", "10")  # no warning: they agree
    write_folder(tmp_path, {"dog": [1]})
    with pytest.raises(ValueError, match="Received: 'dog'"):
        image_folder(root, folder_is_index=True)


def test_what_is_no_folder_of_classes_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        image_folder(tmp_path / "nowhere")
    write(tmp_path / "flat" / "1.png", flat(1))
    with pytest.raises(ValueError, match="one folder for each class .* 1 files and no folder"):
        image_folder(tmp_path / "flat")
    write(tmp_path / "one" / "a" / "1.png", flat(1))
    with pytest.raises(ValueError, match="only one class .*'a'.*folder above"):
        image_folder(tmp_path / "one")
    (tmp_path / "none" / "a").mkdir(parents=True)
    (tmp_path / "none" / "b").mkdir()
    with pytest.raises(ValueError, match="no images in .*'a', 'b'"):
        image_folder(tmp_path / "none")


def test_a_part_is_read_in_its_own_order(tmp_path):
    source = image_folder(write_folder(tmp_path, {"a": [1, 2, 3], "b": [4, 5]}))
    part = source.take([4, 1]).take([1, 0])
    assert part.labels.tolist() == [0, 1]
    assert [part.read(tf.constant(i, "int64")).numpy() for i in (0, 1)] == [flat(2), flat(5)]
    assert part.key(0) == "a/001.png" and part.origin(1).endswith("b/001.png")


def test_a_path_of_tensorflows_file_systems(tmp_path):
    root = "ram://photos"
    for name, value in (("a", 1), ("b", 2)):
        tf.io.gfile.makedirs(f"{root}/{name}")
        with tf.io.gfile.GFile(f"{root}/{name}/1.png", "wb") as file:
            file.write(flat(value))
    source = image_folder(root)
    np.testing.assert_array_equal(source.labels, [0, 1])
    assert contents(source) == {"a/1.png": ("a", flat(1)), "b/1.png": ("b", flat(2))}
