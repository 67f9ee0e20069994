"""Image files to names: the views, the probabilities, and what is printed."""

import dataclasses
import json

import keras
import numpy as np
import pytest

import keras_vit
from keras_vit.models.preprocessing import Preprocessing

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("tensorflow")

from pipelines import cli  # noqa: E402
from pipelines.evaluation import predict  # noqa: E402
from pipelines.sources.folders import SUFFIXES  # noqa: E402

NAMES = ("dark", "red", "blue")
FACTS = Preprocessing(mean=(0.2, 0.4, 0.6), std=(0.5, 0.25, 0.2))


@pytest.fixture(scope="module")
def model():
    """Logits (0, red - blue, blue - red), of the mean pixel as the model takes it.

    One patch, no encoder to speak of: with zero kernels the block passes its input on, and the
    norm of (r, -r, b, -b) keeps the order.
    """
    model = keras_vit.VisionTransformer(
        (8, 16),
        8,
        num_layers=1,
        num_heads=1,
        hidden_dim=4,
        mlp_dim=4,
        classes=3,
        pooling="avg",
        position_embedding="none",
        classifier_activation=None,
    )
    for variable in model.weights:
        variable.assign(np.ones(variable.shape) * ("gamma" in variable.path))
    patches = np.zeros((8, 8, 3, 4))
    patches[:, :, 0] += [1 / 64, -1 / 64, 0, 0]
    patches[:, :, 2] += [0, 0, 1 / 64, -1 / 64]
    model.get_layer("patch_embedding").kernel.assign(patches)
    model.get_layer("head").kernel.assign(
        [[0.0, 1.0, -1.0], [0.0, 0.0, 0.0], [0.0, -1.0, 1.0], [0.0, 0.0, 0.0]]
    )
    model.spec = dataclasses.replace(model.spec, class_names=NAMES, preprocessing=FACTS)
    return model


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for name, colour in (("a.png", (250, 0, 10)), ("b.JPG", (0, 10, 250)), ("c/d.jpeg", (9, 9, 9))):
        (folder / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (40, 20), colour).save(folder / name)
    (folder / "notes.txt").write_text("no image")
    (folder / "._a.png").write_bytes(b"\0\5\x16\7")  # what macOS leaves behind
    return folder


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "my_run.keras"
    model.save(path)
    return path


def expected(colour):
    """Probabilities of a plain image, written out in NumPy."""
    red, _, blue = (np.array(colour) / 255 - FACTS.mean) / FACTS.std
    x = np.array([red, -red, blue, -blue])
    x = x / np.sqrt(np.mean(x**2) + 1e-6)  # its mean is 0
    logits = np.array([0, x[0] - x[2], x[2] - x[0]])
    return np.exp(logits) / np.exp(logits).sum()


def test_probabilities_by_hand(model, photos):
    ((path, best),) = predict.predict(model, [photos / "a.png"])
    assert path == photos / "a.png"
    assert [entry[1] for entry in best] == ["red", "dark", "blue"]
    scores = {name: probability for _, name, probability in best}
    np.testing.assert_allclose([scores[name] for name in NAMES], expected((250, 0, 10)), rtol=1e-4)


def test_folders_are_searched_and_batches_make_no_difference(model, photos):
    results = [list(predict.predict(model, [photos], top=1, batch_size=n)) for n in (1, 2, 32)]
    found = [(path.name, best[0][1]) for path, best in results[0]]
    grey = NAMES[np.argmax(expected((9, 9, 9)))]
    assert found == [("a.png", "red"), ("b.JPG", "blue"), ("d.jpeg", grey)]
    for other in results[1:]:
        assert [(p.name, best[0][1]) for p, best in other] == found


def test_folders_have_the_endings_that_training_reads(tmp_path):
    for ending in SUFFIXES:
        (tmp_path / f"a{ending.upper()}").touch()
    assert len(predict.image_files([tmp_path])) == len(SUFFIXES) == 10


def test_patterns_and_what_is_not_there(photos):
    assert [p.name for p in predict.image_files([f"{photos}/*.png"])] == ["a.png"]
    with pytest.raises(FileNotFoundError, match="no image at"):
        predict.image_files([photos / "missing.png"])
    with pytest.raises(FileNotFoundError, match="no image at .*.jpg"):
        (photos / "empty").mkdir(exist_ok=True)
        predict.image_files([photos / "empty"])


def test_the_models_own_view(model, photos):
    """A centre crop sees the middle, a squash all of it."""
    image = Image.new("RGB", (64, 8), (0, 0, 0))
    image.paste((255, 0, 0), (24, 0, 40, 8))
    image.save(photos.parent / "middle.png")
    squash = predict.read_view(photos.parent / "middle.png", model.spec)
    assert squash.shape == (8, 16, 3) and squash.dtype == "uint8"
    assert 0.2 < (squash[..., 0] > 128).mean() < 0.3
    facts = dataclasses.replace(FACTS, crop_mode="center")
    centre = predict.read_view(
        photos.parent / "middle.png", dataclasses.replace(model.spec, preprocessing=facts)
    )
    np.testing.assert_array_equal(centre, np.broadcast_to([255, 0, 0], (8, 16, 3)))


def test_the_users_own_names_are_printed(saved, photos, capsys):
    line = ["predict", str(photos / "a.png"), str(photos / "b.JPG"), "--model", str(saved)]
    assert cli.main(line) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(photos / "a.png") and lines[4] == str(photos / "b.JPG")
    red = max(expected((250, 0, 10)))
    assert lines[1].split() == [f"{red:.2%}", "red"]
    assert lines[5].split()[1] == "blue"


def test_json(saved, photos, capsys):
    line = ["predict", str(photos / "a.png"), "--model", str(saved), "--top", "2", "--json"]
    assert cli.main(line) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["image"] == str(photos / "a.png")
    assert [p["name"] for p in record["predictions"]] == ["red", "dark"]
    assert record["predictions"][0]["class"] == 1
    assert record["predictions"][0]["probability"] == pytest.approx(expected((250, 0, 10))[1], 1e-4)


def test_names_from_a_file(saved, photos, tmp_path, capsys):
    (tmp_path / "names.txt").write_text("noir\nrouge\nbleu\n")
    line = ["predict", str(photos / "a.png"), "--model", str(saved), "--top", "1"]
    assert cli.main([*line, "--classes-file", str(tmp_path / "names.txt")]) == 0
    assert "rouge" in capsys.readouterr().out
    (tmp_path / "names.txt").write_text("noir\nrouge\n")
    assert cli.main([*line, "--classes-file", str(tmp_path / "names.txt")]) == 2
    assert "3 classes" in capsys.readouterr().err


def test_a_model_without_names_says_the_index(model, photos):
    nameless = type(model).from_config(model.get_config())
    nameless.set_weights(model.get_weights())
    nameless.spec = dataclasses.replace(model.spec, class_names=None)
    ((_, best),) = predict.predict(nameless, [photos / "a.png"], top=1)
    assert best[0][:2] == (1, "class 1")


def test_what_cannot_be_classified_is_said(saved, photos, tmp_path, capsys):
    (tmp_path / "cut.png").write_bytes((photos / "a.png").read_bytes()[:60])
    assert cli.main(["predict", str(tmp_path / "cut.png"), "--model", str(saved)]) == 2
    assert "cut.png" in capsys.readouterr().err
    line = ["predict", str(photos), "--model", str(saved), "--weights", "imagenet"]
    assert cli.main(line) == 2
    assert "weights='imagenet'" in capsys.readouterr().err
    fresh = keras_vit.VisionTransformer(
        (8, 16), 8, num_layers=1, num_heads=1, hidden_dim=4, mlp_dim=4, classes=3
    )
    fresh.save(tmp_path / "fresh.keras")
    line = ["predict", str(photos / "a.png"), "--model", str(tmp_path / "fresh.keras")]
    assert cli.main(line) == 2
    assert "Fine-tune" in capsys.readouterr().err
    plain = keras.Sequential([keras.Input((8, 16, 3)), keras.layers.Flatten()])
    plain.save(tmp_path / "plain.keras")
    line = ["predict", str(photos / "a.png"), "--model", str(tmp_path / "plain.keras")]
    assert cli.main(line) == 2
    assert "made by keras_vit" in capsys.readouterr().err
