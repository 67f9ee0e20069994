"""Data sets of TensorFlow Datasets: a small one, built here and without a network."""

import pytest

pytest.importorskip("tensorflow")

from image_files import flat
from tf_data import once
from tiny_tfds import CLASSES, TinyPictures

from pipelines._tensorflow import tf
from pipelines.sources import open_source
from pipelines.sources.tfds import tfds

pytestmark = once

VALUES = {"train": [10, 20, 30, 40, 50], "test": [60, 70]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        content = {k: [(flat(v), i % 3) for i, v in enumerate(x)] for k, x in VALUES.items()}
        patch.setattr(TinyPictures, "content", content)
        folder = str(tmp_path_factory.mktemp("tfds"))
        tfds("tiny_pictures", data_dir=folder)
    return folder


def rows(stream):
    return [(data, int(label)) for data, label in stream.records().as_numpy_iterator()]


def test_images_stay_encoded_and_in_order(folder):
    stream = tfds("tiny_pictures", data_dir=folder)
    assert stream.class_names == CLASSES and stream.count == 5 and 0 < stream.size < 10_000
    assert rows(stream) == [(flat(v), i % 3) for i, v in enumerate(VALUES["train"])]
    assert tf.io.decode_png(rows(stream)[0][0])[0, 0, 0] == 10
    part = tfds("tiny_pictures:1.*.*", split="train[40%:]", data_dir=folder)
    assert rows(part) == rows(stream)[2:] and part.count == 3


def test_the_words_that_name_it(folder):
    text = f"tfds:tiny_pictures,data_dir={folder}"
    assert open_source(text).count == 5
    assert rows(open_source(text, "validation")) == [(flat(60), 0), (flat(70), 1)]
    assert open_source(f"{text},split=train[:2]").count == 2
    assert open_source(f"{text},split=train[:2]", "validation") is None
    own = open_source(f"{text},split=train[:2],validation_split=train[2:3]", "validation")
    assert rows(own) == [(flat(30), 2)]


def test_several_labels(folder):
    stream = tfds("tiny_pictures", split="test", data_dir=folder, label_key="tags")
    labels = [label.tolist() for _, label in stream.records().as_numpy_iterator()]
    assert labels == [[1, 0, 1], [0, 1, 1]]


def test_what_it_has_not_is_refused(folder):
    with pytest.raises(ValueError, match="no split 'dev'. It has .*'train'"):
        tfds("tiny_pictures", split="dev", data_dir=folder)
    with pytest.raises(ValueError, match="image_key='photo', features .*'picture'"):
        tfds("tiny_pictures", data_dir=folder, image_key="photo")
    with pytest.raises(ValueError, match="'id' .* must be a class label"):
        tfds("tiny_pictures", data_dir=folder, label_key="id")
    with pytest.raises(ValueError, match="no TFDS data set 'no_such_set'"):
        tfds("no_such_set", data_dir=folder)
    with pytest.raises(ValueError, match="no TFDS data set 'tiny_pictures:9.0.0'.*9.0.0"):
        tfds("tiny_pictures:9.0.0", data_dir=folder)


def test_what_cannot_be_prepared_says_why_and_where(folder):
    with pytest.raises(ValueError, match=f"broken_pictures/1.2.0 is not in {folder}.*checksum of"):
        tfds("broken_pictures", data_dir=folder)
