"""Labels of a source as a model has them: by name, by WordNet's identifier, by number."""

import dataclasses

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow")

from keras_vit.applications.class_names import imagenet_names
from pipelines.sources.grammar import open_source
from pipelines.sources.model_labels import with_labels_of

pytestmark = pytest.mark.skipif(
    keras.config.backend() != "tensorflow", reason="nothing here depends on the backend"
)


@dataclasses.dataclass
class Spec:
    classes: int
    class_names: tuple | None = None
    include_top: bool = True


def source_of(names):
    images = np.zeros((len(names), 2, 3, 3), "uint8")
    return open_source((images, np.arange(len(names))), "train", names)


def test_some_of_imagenet_by_identifier():
    # golden retriever, tabby, tench: 207, 281 and 0 of ILSVRC-2012.
    source = source_of(("n02099601", "n02123045", "n01440764"))
    found = with_labels_of(Spec(1000, imagenet_names()), source)
    assert found.labels.tolist() == [207, 281, 0]
    assert len(found.class_names) == 1000


def test_some_of_imagenet_by_name():
    found = with_labels_of(Spec(1000, imagenet_names()), source_of(("tabby", "tench")))
    assert found.labels.tolist() == [281, 0]


def test_an_identifier_that_is_not_imagenets_is_refused():
    with pytest.raises(ValueError, match="not among the 1000 that the model names: 'n00000001'"):
        with_labels_of(Spec(1000, imagenet_names()), source_of(("n01440764", "n00000001")))


def test_a_name_that_stands_for_two_classes_is_refused():
    with pytest.raises(ValueError, match="more than one class: 'crane'. Give each .*WordNet"):
        with_labels_of(Spec(1000, imagenet_names()), source_of(("tabby", "crane")))
    whole = source_of(imagenet_names())  # whose labels are the model's already
    assert with_labels_of(Spec(1000, imagenet_names()), whole) is whole
    with pytest.raises(ValueError, match="more than one class: 'crane', 'maillot'"):
        whole.relabel(sorted(set(imagenet_names())))


def test_names_that_the_model_does_not_know_stay():
    source = source_of(("b", "a"))
    assert with_labels_of(Spec(2), source) is source
    assert with_labels_of(Spec(2, ("x", "y")), source) is source


def test_numbers_count_up_to_the_models_classes():
    found = with_labels_of(Spec(5), source_of(("0", "1", "2")))
    assert found.class_names == ("0", "1", "2", "3", "4")
    assert found.labels.tolist() == [0, 1, 2]


def test_numbers_with_a_gap_are_those_of_the_outputs():
    found = with_labels_of(Spec(4), source_of(("0", "1", "3")))
    assert found.class_names == ("0", "1", "2", "3") and found.labels.tolist() == [0, 1, 3]
    source = source_of(("0", "1", "3"))
    assert with_labels_of(Spec(3), source) is source
    assert source.relabel(tuple("abcd")).labels.tolist() == [0, 1, 3]
    with pytest.raises(ValueError, match="not among the 3"):
        source.relabel(tuple("abc"))
