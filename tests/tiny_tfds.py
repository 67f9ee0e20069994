"""A data set of TensorFlow Datasets that is built in a test, without a network."""

import io
import pathlib

import pytest

tensorflow_datasets = pytest.importorskip("tensorflow_datasets")
pytest.importorskip("importlib_resources")  # which TFDS 4.9.10 imports and does not require

CLASSES = ("ant", "bee", "cow")


class TinyPictures(tensorflow_datasets.core.GeneratorBasedBuilder):
    """The images in `content`, in that order."""

    VERSION = tensorflow_datasets.core.Version("1.2.0")
    pkg_dir_path = pathlib.Path(__file__).parent  # which TFDS finds for modules of packages only
    content = {}  # {split: [(bytes of a PNG, label)]}, set before it is prepared

    def _info(self):
        features = tensorflow_datasets.features
        label = features.ClassLabel(names=CLASSES)
        picture = features.Image(encoding_format="png")
        return self.dataset_info_from_configs(
            features=features.FeaturesDict(
                {
                    "id": features.Text(),
                    "label": label,
                    "picture": picture,
                    "tags": features.Sequence(label),
                }
            ),
            disable_shuffling=True,  # keeps the order
        )

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples(split) for split in self.content}

    def _generate_examples(self, split):
        for i, (data, label) in enumerate(self.content[split]):
            example = {"id": f"{split} {i}", "label": label, "picture": io.BytesIO(data)}
            yield i, {**example, "tags": [label, 2]}


class BrokenPictures(TinyPictures):
    """Cannot be had any more."""

    content = {"train": []}

    def _generate_examples(self, split):
        raise RuntimeError("checksum of pictures.zip changed")
