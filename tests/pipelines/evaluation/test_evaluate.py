"""Measures against counts by hand, and a model against its own probabilities."""

import json

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow")

import small_models as small

from pipelines import cli
from pipelines.evaluation import evaluate
from pipelines.evaluation import predict as predict_module
from pipelines.evaluation.predict import predict
from pipelines.model_files.export import serving_model
from pipelines.sources.arrays import arrays

# Six classes, four images; the right classes are 0, 1, 1, 5.
P = np.array(
    [
        [0.5, 0.1, 0.1, 0.1, 0.1, 0.1],
        [0.2, 0.4, 0.1, 0.1, 0.1, 0.1],
        [0.75, 0.05, 0.05, 0.05, 0.05, 0.05],
        [0.3, 0.25, 0.2, 0.15, 0.1, 0.0],
    ]
)
LABELS = np.array([0, 1, 1, 5])
NAMES = tuple("abcdef")


def test_counts_by_hand():
    result = evaluate.measure(P, LABELS, NAMES)
    assert (result.count, result.top1, result.top5) == (4, 0.5, 0.75)
    np.testing.assert_allclose(
        result.loss, -(np.log(0.5) + np.log(0.4) + np.log(0.05) + np.log(1e-12)) / 4
    )
    wanted = np.zeros((6, 6), int)
    wanted[0, 0] = wanted[1, 1] = wanted[1, 0] = wanted[5, 0] = 1
    np.testing.assert_array_equal(result.confusion, wanted)
    assert result.per_class[1] == ("b", 2, 0.5)
    assert result.per_class[2] == ("c", 0, None)
    # Four bins, one image each: |1 - .5|, |1 - .4|, |0 - .75|, |0 - .3|.
    np.testing.assert_allclose(result.calibration_error, (0.5 + 0.6 + 0.75 + 0.3) / 4)
    assert result.class_table().splitlines()[0].split() == ["f", "1", "0.00%"]


def test_top_five_of_five_classes_says_nothing():
    result = evaluate.measure(P[:3, :5], LABELS[:3], NAMES[:5])
    assert result.top5 is None
    assert "top-5 -" in result.summary()


def test_equal_probabilities_are_ranked_as_argmax_ranks_them():
    result = evaluate.measure(np.full((6, 6), 1 / 6), np.arange(6), NAMES)
    assert result.top1 == 1 / 6
    np.testing.assert_allclose(result.top5, 5 / 6)


def test_perfect_calibration_has_no_error():
    confidence = np.full(10, 0.7)
    right = np.arange(10) < 7
    assert evaluate.calibration_error(confidence, right) < 1e-12


def test_reassessed_labels():
    accuracy, count = evaluate.real_accuracy(P, [[0, 3], [2], [], [5, 0]])
    assert (accuracy, count) == (2 / 3, 3)
    with pytest.raises(ValueError, match="3 lists for 4 images"):
        evaluate.real_accuracy(P, [[0], [1], [2]])
    with pytest.raises(ValueError, match="No image"):
        evaluate.real_accuracy(P[:1], [[]])


def test_probabilities_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"\(n, 5\).*\(4, 6\)"):
        evaluate.measure(P, LABELS, NAMES[:5])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Seven images of three classes as files, and a model that names them in another order."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for k, name in enumerate(("ant", "bee", "cat", "ant", "bee", "cat", "ant")):
        (folder / name).mkdir(exist_ok=True)
        pixels = rng.integers(0, 256, (20, 30, 3), dtype="uint8")
        keras.utils.save_img(folder / name / f"{k}.png", pixels, scale=False)
    fields = {"classes": 3, "num_layers": 1, "classifier_activation": "softmax"}
    model = small.build(**fields, channels=3).model
    import dataclasses

    model.spec = dataclasses.replace(model.spec, class_names=("cat", "ant", "bee"))
    path = folder.parent / "model.keras"
    model.save(path)
    return folder, model, path


def test_a_model_is_measured_on_what_it_predicts(files):
    folder, model, _ = files
    source = evaluate.labelled(model, evaluate.open_labelled(folder))
    p = evaluate.probabilities(model, source, batch_size=4)  # two batches, one row of padding
    assert source.class_names == ("cat", "ant", "bee")
    predicted = list(predict(model, [folder], top=3))
    assert len(predicted) == len(p) == 7
    for number, row in enumerate(p):
        path, best = next(
            (path, best) for path, best in predicted if str(path) == source.origin(number)
        )
        assert path.parent.name == source.class_names[source.labels[number]]
        wanted = {name: probability for _, name, probability in best}
        for name, probability in zip(source.class_names, row, strict=True):
            np.testing.assert_allclose(probability, wanted[name], rtol=1e-5)
    result = evaluate.evaluate(model, folder, batch_size=4)
    assert result.top1 == np.mean(p.argmax(1) == source.labels)


@pytest.mark.parametrize("activation", ["sigmoid", None])
def test_one_output_is_the_second_of_two_classes(activation, tmp_path):
    rng = np.random.default_rng(3)
    pixels, labels = rng.integers(0, 256, (7, 24, 40, 3), dtype="uint8"), np.arange(7) % 2
    fields = {"num_layers": 1, "channels": 3, "classes": 1, "image_size": (24, 40)}
    logits = small.expected(small.build(**fields), pixels.astype("float32") / 127.5 - 1)["logits"]
    second = 1 / (1 + np.exp(-logits[:, 0]))
    model = small.build(**fields, classifier_activation=activation).model
    source = evaluate.labelled(model, arrays(pixels, labels))
    p = evaluate.probabilities(model, source, batch_size=4)
    np.testing.assert_allclose(p, np.stack([1 - second, second], axis=1), atol=1e-4)
    assert p.std() > 1e-3
    result = evaluate.evaluate(model, (pixels, labels))
    assert result.top1 == np.mean((second > 0.5) == labels)
    found = predict_module.probabilities(model, pixels)
    np.testing.assert_allclose(found, second[:, None], atol=1e-4)
    served = keras.ops.convert_to_numpy(serving_model(model)(pixels))
    np.testing.assert_allclose(served, second[:, None], atol=1e-4)


def test_all_images_of_data_without_such_a_part_are_said_to_be(files, capsys):
    evaluate.open_labelled(files[0])
    assert "no validation part, so all 7 images" in capsys.readouterr().err


def test_the_command_prints_and_draws(files, tmp_path, capsys):
    folder, _, path = files
    arguments = ["evaluate", "--model", str(path), "--data", str(folder), "--json"]
    picture = tmp_path / "new" / "confusion.png"
    assert cli.main([*arguments, "--confusion", str(picture)]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["count"] == 7
    assert facts["top5"] is None
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--model", "a.keras", "--reproduce", "ViT_B16", "imagenet"],
        ["--weights", "imagenet", "--reproduce", "ViT_B16", "imagenet"],
    ],
)
def test_the_command_needs_one_model(words, capsys):
    assert cli.main(["evaluate", "--data", "photos/", *words]) == 2
    assert "or a published one by --reproduce" in capsys.readouterr().err


def test_a_model_of_other_classes_is_refused(files):
    folder, _, _ = files
    other = small.build(classes=5, num_layers=1, channels=3).model
    with pytest.raises(ValueError, match="The model has 5 classes"):
        evaluate.evaluate(other, folder)
    headless = small.build(include_top=False, num_layers=1).model
    with pytest.raises(ValueError, match="include_top=False"):
        evaluate.evaluate(headless, folder)


def test_data_are_looked_for_before_weights_are_fetched(monkeypatch, tmp_path, capsys):
    def fetch(model_name, weights):
        raise AssertionError("fetched")

    monkeypatch.setattr(evaluate, "build_published", fetch)
    words = ["evaluate", "--reproduce", "ViT_B16", "imagenet", "--data", str(tmp_path / "none")]
    assert cli.main(words) == 2
    assert str(tmp_path / "none") in capsys.readouterr().err
