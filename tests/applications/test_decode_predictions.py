"""Names of classes, checked against anchors that are known by hand."""

import dataclasses
import json

import keras
import numpy as np
import pytest

import keras_vit
from keras_vit.applications import pretrained
from keras_vit.applications.class_names import class_names, imagenet_classes, imagenet_names
from keras_vit.weights import catalogue

NAMES = ("ant", "bee", "cat")


@pytest.fixture(scope="module")
def model():
    """Three classes, a trained head, names."""
    model = keras_vit.VisionTransformer(
        (16, 24), 8, num_layers=1, num_heads=1, hidden_dim=4, mlp_dim=4, classes=3
    )
    model.get_layer("head").kernel.assign(np.ones((4, 3)))
    model.spec = dataclasses.replace(model.spec, class_names=NAMES)
    return model


def one_hot(*indices, classes=1000):
    return np.eye(classes)[list(indices)]


def test_imagenets_classes_are_in_the_order_of_its_heads():
    classes = imagenet_classes()
    anchors = {
        0: ("n01440764", "tench"),
        207: ("n02099601", "golden_retriever"),
        281: ("n02123045", "tabby"),
        388: ("n02510455", "giant_panda"),
        817: ("n04285008", "sports_car"),
        999: ("n15075141", "toilet_tissue"),
    }
    assert {index: classes[index] for index in anchors} == anchors
    identifiers = [identifier for identifier, _ in classes]
    assert len(set(identifiers)) == 1000 and identifiers == sorted(identifiers)
    repeated = {name for name in imagenet_names() if imagenet_names().count(name) > 1}
    assert repeated == {"crane", "maillot"}


def test_the_form_of_keras_applications():
    probabilities = np.full((2, 1000), 0.1 / 998)
    probabilities[0, [281, 207]] = 0.6, 0.3
    probabilities[1, [999, 0]] = 0.5, 0.4
    first, second = keras_vit.decode_predictions(probabilities, "ViT_B16/imagenet", top=2)
    assert [entry[:2] for entry in first] == [
        ("n02123045", "tabby"),
        ("n02099601", "golden_retriever"),
    ]
    assert [entry[1] for entry in second] == ["toilet_tissue", "tench"]
    assert first[0][2] == pytest.approx(0.6) and type(first[0][2]) is float


def test_a_model_knows_its_classes(model):
    probabilities = keras.ops.convert_to_tensor([[0.2, 0.7, 0.1]])
    (result,) = keras_vit.decode_predictions(probabilities, model)
    assert [entry[:2] for entry in result] == [(1, "bee"), (0, "ant"), (2, "cat")]
    assert keras_vit.decode_predictions(probabilities, model.spec) == [result]


def test_without_a_model_it_is_imagenet():
    ((entry,),) = keras_vit.decode_predictions(one_hot(517), top=1)
    assert entry == ("n03126707", "crane", 1.0)
    with pytest.raises(ValueError, match="1000 classes. Received: 3 columns"):
        keras_vit.decode_predictions(one_hot(1, classes=3))


def test_the_top_is_all_where_there_are_fewer(model):
    assert [len(row) for row in keras_vit.decode_predictions(np.eye(3), model)] == [3, 3, 3]
    with pytest.raises(ValueError, match="Received: top=0"):
        keras_vit.decode_predictions(np.eye(3), model, top=0)


@pytest.mark.parametrize(
    "values, words",
    [
        ([[2.0, -1.0, 0.5]], "softmax"),
        ([[0.5, 1.7, 0.2]], "softmax"),
        ([[0.5, np.nan, 0.2]], "from 0 to 1"),
        ([0.5, 0.3, 0.2], r"shape=\(3,\)"),
        ([[0.5, 0.5]], "3 classes. Received: 2 columns"),
    ],
)
def test_what_are_no_probabilities_of_the_model_is_refused(model, values, words):
    with pytest.raises(ValueError, match=words):
        keras_vit.decode_predictions(np.array(values), model)


def test_a_head_of_zeros_is_refused(model):
    fresh = keras_vit.VisionTransformer(
        (16, 24), 8, num_layers=1, num_heads=1, hidden_dim=4, mlp_dim=4, classes=3
    )
    uniform = np.full((1, 3), 1 / 3)
    with pytest.raises(ValueError, match="all zeros.*Fine-tune"):
        keras_vit.decode_predictions(uniform, fresh, class_names=NAMES)
    fresh.get_layer("head").bias.assign([0.0, 0.1, 0.0])
    assert keras_vit.decode_predictions(uniform, fresh, class_names=NAMES)
    with pytest.raises(ValueError, match="all zeros"):
        keras_vit.decode_predictions(np.zeros((1, 21843)), "ViT_B16/orig_imagenet21k")


def test_unnamed_classes_take_names_from_a_file(tmp_path):
    probabilities = one_hot(7, classes=21843)
    with pytest.raises(ValueError, match="no names for these 21843 classes.*class_names="):
        keras_vit.decode_predictions(probabilities, "ViT_B16/imagenet21k")
    path = tmp_path / "names.txt"
    path.write_text("".join(f"class {i}, of many\n" for i in range(21843)))
    ((entry,),) = keras_vit.decode_predictions(
        probabilities, "ViT_B16/imagenet21k", top=1, class_names=path
    )
    assert entry == (7, "class 7, of many", 1.0)


@pytest.mark.parametrize(
    "file, content",
    [
        ("names.txt", "ant\nbee\n\ncät\n"),
        ("names.json", json.dumps(["ant", "bee", "cät"])),
        ("id2label.json", json.dumps({"2": "cät", "0": "ant", "1": "bee"})),
        ("index.json", json.dumps({"0": ["n1", "ant"], "1": ["n2", "bee"], "2": ["n3", "cät"]})),
    ],
)
def test_files_of_names(tmp_path, file, content):
    (tmp_path / file).write_text(content, encoding="utf-8")
    assert class_names(str(tmp_path / file), 3) == ("ant", "bee", "cät")
    with pytest.raises(ValueError, match="4 classes.*3 names"):
        class_names(tmp_path / file, 4)


@pytest.mark.parametrize("content", ["{", '{"1": "ant"}', "7", "[1, 2]"])
def test_files_of_other_things_are_refused(tmp_path, content):
    (tmp_path / "names.json").write_text(content)
    with pytest.raises(ValueError, match="names.json"):
        class_names(tmp_path / "names.json", 1)


def test_a_model_without_a_top_has_no_classes():
    bare = keras_vit.VisionTransformer(
        (16, 24), 8, num_layers=1, num_heads=1, hidden_dim=4, mlp_dim=4, include_top=False
    )
    with pytest.raises(ValueError, match="include_top=False"):
        keras_vit.decode_predictions(np.eye(1000)[:1], bare)
    with pytest.raises(ValueError, match="without a head"):
        keras_vit.decode_predictions(np.eye(1000)[:1], "ViT_B16/hf_orig_imagenet21k")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A small file with a head for ImageNet-1k, and its entry in the catalogue."""
    path = tmp_path_factory.mktemp("published") / "tiny.npz"
    model = keras_vit.ViT_Ti16(weights=None, input_shape=(32, 48, 3))
    model.get_layer("head").kernel.assign(np.ones((192, 1000)))
    keras_vit.save_weights(model, path)
    entry = catalogue.find("ViT_Ti16", "imagenet")
    return path, dataclasses.replace(entry, resolution=(32, 48))


def test_published_heads_bring_their_names(published, monkeypatch, tmp_path):
    monkeypatch.setattr(pretrained, "find_file", lambda *_: published)
    model = keras_vit.ViT_Ti16()
    assert model.spec.class_names == imagenet_names()
    model.save(tmp_path / "model.keras")
    for other in (
        keras.saving.load_model(tmp_path / "model.keras"),
        keras_vit.resize(model, image_size=(48, 32)),
        keras_vit.ViT_Ti16(weights=tmp_path / "model.keras"),
    ):
        assert other.spec.class_names == imagenet_names()
        ((entry,),) = keras_vit.decode_predictions(one_hot(281), other, top=1)
        assert entry[:2] == ("n02123045", "tabby")


def test_other_heads_bring_none(published, monkeypatch):
    monkeypatch.setattr(pretrained, "find_file", lambda *_: published)
    with pytest.warns(UserWarning, match="the head is fresh"):
        assert keras_vit.ViT_Ti16(classes=3).spec.class_names is None
    assert keras_vit.ViT_Ti16(include_top=False).spec.class_names is None
    entry = dataclasses.replace(published[1], label_set="imagenet21k")
    monkeypatch.setattr(pretrained, "find_file", lambda *_: (published[0], entry))
    assert keras_vit.ViT_Ti16().spec.class_names is None
