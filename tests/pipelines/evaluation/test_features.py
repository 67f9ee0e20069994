"""Features are what the reference's NumPy model has before its head, on every backend."""

import json

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow")

import small_models as small

from pipelines import cli
from pipelines.evaluation.features import cached_features, feature_model, features
from pipelines.evaluation.fewshot import few_shot_accuracy
from pipelines.evaluation.fewshot_sources import few_shot
from pipelines.sources.arrays import array_file, arrays


@pytest.fixture(scope="module")
def model():
    return small.build(num_layers=1, channels=3, representation_size=11).model


def images(count, seed=0):
    """Images of the size whose squashed view is cropped: 24/0.875 x 40/0.875, rounded down."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, 27, 45, 3), dtype="uint8")


def test_features_are_the_references_pre_logits_of_the_centre():
    variant = small.build(num_layers=1, channels=3, representation_size=11, image_size=(24, 40))
    pixels, labels = images(5), np.array([0, 1, 0, 1, 0])
    crop = pixels[:, 1:25, 2:42].astype("float32") / 127.5 - 1  # (27 - 24) // 2, (45 - 40) // 2
    wanted = small.expected(variant, crop)
    values = features(variant.model, arrays(pixels, labels), batch_size=4)
    assert values.shape == (5, 11) and values.dtype == np.float32
    logits = values @ variant.weights["head/kernel"] + variant.weights["head/bias"]
    np.testing.assert_allclose(logits, wanted["logits"], atol=2e-5 * np.abs(wanted["logits"]).max())


def test_features_are_kept_and_follow_the_weights(model, tmp_path, monkeypatch):
    source = arrays(images(3), np.array([0, 1, 0]))
    first = cached_features(model, source, tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    with monkeypatch.context() as patch:
        patch.setattr(
            "pipelines.evaluation.features.features", None
        )  # a second time they are only read
        np.testing.assert_array_equal(cached_features(model, source, tmp_path), first)
    kernel = model.get_layer("pre_logits").kernel
    kept = keras.ops.convert_to_numpy(kernel).copy()
    kernel.assign(kept * 2)
    assert (cached_features(model, source, tmp_path) != first).any()
    kernel.assign(kept)
    other = arrays(images(3), np.array([0, 1, 1]))
    cached_features(model, other, tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_the_parts_of_one_file_are_kept_apart(model, tmp_path):
    labels = np.array([0, 1, 0])
    parts = {"x_train": images(3), "y_train": labels, "x_val": images(3, seed=1), "y_val": labels}
    np.savez(tmp_path / "parts.npz", **parts)
    for part in ("train", "validation"):
        source = array_file(tmp_path / "parts.npz", part)
        kept = cached_features(model, source, tmp_path / "cache")
        np.testing.assert_array_equal(kept, features(model, source))
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_model_without_one_vector_an_image_is_refused():
    tokens = small.build(num_layers=1, include_top=False, pooling=None).model
    with pytest.raises(ValueError, match="one vector an image.*output shape"):
        feature_model(tokens)
    pooled = small.build(num_layers=1, include_top=False, pooling="avg", class_token=False).model
    assert feature_model(pooled).output_shape == pooled.output_shape


def test_few_shot_accuracy_of_sources_and_the_command(model, tmp_path, capsys):
    pixels, labels = images(24), np.arange(24) % 3
    accuracies = few_shot(model, (pixels, labels), (pixels[:9], labels[:9]), shots=(1, 5))
    train = features(model, arrays(pixels, labels))
    assert accuracies == few_shot_accuracy(train, labels, train[:9], labels[:9], 3, shots=(1, 5))
    np.savez(tmp_path / "a.npz", x_train=pixels, y_train=labels, x_val=pixels, y_val=labels)
    model.save(tmp_path / "model.keras")
    words = ["fewshot", "--model", f"{tmp_path}/model.keras", "--data", f"{tmp_path}/a.npz"]
    assert cli.main([*words, "--shots", "5", "--seeds", "2", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert len(printed["5"]) == 2
    assert cli.main([*words, "--shots", "5", "--seeds", "2", "--cache", f"{tmp_path}/cache"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[0] == "5"


def test_a_source_without_test_images_is_refused(model):
    with pytest.raises(ValueError, match="no test images"):
        few_shot(model, (images(6), np.arange(6) % 2))
