"""Data sets of TensorFlow Datasets: a small one, built here and without a network."""

import pytest

pytest.importorskip("tensorflow_datasets")
pytest.importorskip("importlib_resources")  # which TFDS 4.9.10 imports and does not require

import io

import tensorflow_datasets
from image_files import flat
from tf_data import once

from pipelines._tensorflow import tf
from pipelines.sources import open_source
from pipelines.sources.tfds import tfds

pytestmark = once

VALUES = {"train": [10, 20, 30, 40, 50], "test": [60, 70]}
CLASSES = ("ant", "bee", "cow")


class TinyPictures(tensorflow_datasets.core.GeneratorBasedBuilder):
    """Pictures of one value each."""

    VERSION = tensorflow_datasets.core.Version("1.2.0")

    def _info(self):
        features = tensorflow_datasets.features
        return self.dataset_info_from_configs(
            features=features.FeaturesDict(
                {
                    "id": features.Text(),
                    "label": features.ClassLabel(names=CLASSES),
                    "picture": features.Image(encoding_format="png"),
                    "tags": features.Sequence(features.ClassLabel(names=CLASSES)),
                }
            ),
            disable_shuffling=True,  # keeps the order
        )

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples(split) for split in VALUES}

    def _generate_examples(self, split):
        for i, value in enumerate(VALUES[split]):
            label = i % 3
            yield (
                i,
                {
                    "id": f"{split} {i}",
                    "label": label,
                    "picture": io.BytesIO(flat(value)),
                    "tags": [label, 2],
                },
            )


class BrokenPictures(TinyPictures):
    """Cannot be had any more."""

    def _generate_examples(self, split):
        raise RuntimeError("checksum of pictures.zip changed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("tfds"))


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


def test_what_cannot_be_prepared_says_why_and_where(folder):
    with pytest.raises(ValueError, match=f"broken_pictures/1.2.0 is not in {folder}.*checksum of"):
        tfds("broken_pictures", data_dir=folder)
