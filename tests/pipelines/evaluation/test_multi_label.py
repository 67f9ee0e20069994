"""Images of several classes: measures against numbers by hand, and a model against its logits."""

import csv
import dataclasses
import json

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow")

import small_models as small

from pipelines import cli
from pipelines.evaluation import evaluate, multi_label

# Four images, three classes: a is ranked +-+-, b has no image, c is one place of four equals.
P = np.array([[0.9, 0.1, 0.5], [0.8, 0.2, 0.5], [0.6, 0.7, 0.5], [0.1, 0.3, 0.5]])
LABELS = np.array([[1, 0, 1], [0, 0, 0], [1, 0, 0], [0, 0, 0]])
NAMES = ("a", "b", "c")


def test_numbers_by_hand():
    result = evaluate.measure(P, LABELS, NAMES)
    # a: precision 1 at the first place, 2/3 at the third. c: one of four at the one place.
    # F1 of a: three are said, two right, none missed; of b: one said, none there; of c: 0.5 is not
    # above a half, so that nothing is said.
    a, b, c = result.per_class
    assert (a[:2], b[:2], c[:2]) == (("a", 2), ("b", 0), ("c", 1))
    np.testing.assert_allclose(a[2:], ((1 + 2 / 3) / 2, 2 * 2 / (2 * 2 + 1)))
    assert (b[2:], c[2:]) == ((None, 0.0), (0.25, 0.0))
    np.testing.assert_allclose(result.mean_average_precision, (5 / 6 + 1 / 4) / 2)
    # The likeliest classes are a, a, b, c.
    assert (result.count, result.hit_at_one) == (4, 0.25)
    right = [0.9 * 0.9 * 0.5, 0.2 * 0.8 * 0.5, 0.6 * 0.3 * 0.5, 0.9 * 0.7 * 0.5]
    np.testing.assert_allclose(result.loss, -np.mean(np.log(right)))


def test_words_of_a_result():
    result = evaluate.measure(P, LABELS, NAMES)
    assert "4 images of several classes: mAP 54.17%, hit at one 25.00%" in result.summary()
    titles, *rows = (line.split() for line in result.class_table().splitlines())
    assert titles == ["images", "AP", "F1"]
    assert rows == [
        ["c", "1", "25.00%", "0.00%"],
        ["a", "2", "83.33%", "80.00%"],
        ["b", "0", "-", "0.00%"],
    ]
    assert json.loads(json.dumps(result.to_dict()))["per_class"][1] == ["b", 0, None, 0.0]


def test_what_is_not_there_and_not_said_has_no_f1():
    result = multi_label.measure([[0.9, 0.1]], [[1, 0]], ("a", "b"))
    assert result.per_class == (("a", 1, 1.0, 1.0), ("b", 0, None, None))
    assert result.mean_average_precision == 1.0


def test_the_order_of_equal_scores_has_no_say():
    scores, relevant = np.array([0.7, 0.5, 0.5, 0.2]), np.array([0, 1, 0, 1], bool)
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]):
        found = multi_label.average_precision(scores[order], relevant[order])
        np.testing.assert_allclose(found, (1 / 3 + 2 / 4) / 2)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"\(n, 2\).*\(4, 3\)"):
        multi_label.measure(P, LABELS, NAMES[:2])
    with pytest.raises(ValueError, match="No image is of any class"):
        multi_label.measure(P, np.zeros((4, 3)), NAMES)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A table of seven images of up to three classes, named out of the model's order."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    classes = ("ant", "bee|cat", "cat", "ant|bee|cat", "bee", "cat|ant", "ant")
    rows = [["path", "label"]]
    for number, label in enumerate(classes):
        pixels = rng.integers(0, 256, (20, 30, 3), dtype="uint8")
        keras.utils.save_img(folder / f"{number}.png", pixels, scale=False)
        rows.append([f"{number}.png", label])
    with open(folder / "labels.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    return folder / "labels.csv"


def saved(activation, path):
    fields = {"classes": 3, "num_layers": 1, "classifier_activation": activation}
    model = small.build(**fields, channels=3).model
    model.spec = dataclasses.replace(model.spec, class_names=("cat", "ant", "bee"))
    model.save(path)
    return model


def test_sigmoid_and_logits_agree_and_padding_does_not_count(photos, tmp_path):
    probabilities, logits = (saved(word, tmp_path / "a.keras") for word in ("sigmoid", None))
    results = [evaluate.evaluate(model, photos, batch_size=4) for model in (probabilities, logits)]
    for result in results:
        assert result.count == 7
        counts = [(name, images) for name, images, *_ in result.per_class]
        assert counts == [("cat", 4), ("ant", 4), ("bee", 3)]
    np.testing.assert_allclose(results[0].loss, results[1].loss, rtol=1e-5)
    alone = evaluate.evaluate(probabilities, photos, batch_size=1)  # with no row of padding
    np.testing.assert_allclose(results[0].loss, alone.loss, rtol=1e-5)


def test_a_softmax_is_refused(photos, tmp_path):
    with pytest.raises(ValueError, match="train it with a sigmoid"):
        evaluate.evaluate(saved("softmax", tmp_path / "a.keras"), photos)


def test_the_command_says_what_it_does_not_draw(photos, tmp_path, capsys):
    saved("sigmoid", tmp_path / "a.keras")
    words = ["evaluate", "--model", str(tmp_path / "a.keras"), "--data", str(photos)]
    picture = tmp_path / "confusion.png"
    assert cli.main([*words, "--json", "--confusion", str(picture)]) == 0
    said = capsys.readouterr()
    facts = json.loads(said.out)
    assert facts["count"] == 7 and 0 < facts["mean_average_precision"] <= 1
    assert "No confusion matrix" in said.err and not picture.exists()
    assert cli.main([*words, "--real", "real.json"]) == 2
    assert "--real is for images of one class" in capsys.readouterr().err


def test_a_file_names_the_classes_of_a_model_that_does_not(photos, tmp_path, capsys):
    fields = {"classes": 3, "num_layers": 1, "classifier_activation": "sigmoid"}
    small.build(**fields, channels=3).model.save(tmp_path / "a.keras")
    (tmp_path / "names.txt").write_text("cat\nant\nbee\n")
    words = ["evaluate", "--model", str(tmp_path / "a.keras"), "--data", str(photos), "--json"]
    assert cli.main([*words, "--classes-file", str(tmp_path / "names.txt")]) == 0
    names = [row[0] for row in json.loads(capsys.readouterr().out)["per_class"]]
    assert names == ["cat", "ant", "bee"]
