"""`keras-vit bench`: that it runs what it says, and its arithmetic; never its times."""

import json

import keras
import pytest

import keras_vit
from pipelines import cli, timing

MACS = 2 * (4 * 9 * 8 * 8 + 2 * 9 * 9 * 8 + 2 * 9 * 8 * 12) + 8 * 64 * 3 * 8 + 8 * 5


@pytest.fixture
def tiny(monkeypatch):
    """In place of the constructor: two blocks of 8 + 1 tokens, 5 classes."""

    def build(weights, input_shape, classifier_activation, dtype):
        return keras_vit.VisionTransformer(
            input_shape[:2], 8, 2, 2, 8, 12, classes=5, classifier_activation=None, dtype=dtype
        )

    monkeypatch.setattr(keras_vit, "ViT_S16", build)
    monkeypatch.setattr(timing, "CPU_SIDE", 16)


def test_rates_and_shares_follow_from_the_seconds(tiny, monkeypatch):
    seconds = {"product": iter([2.0, 4.0, 1.0]), "others": iter([0.5, 6.0, 1.0, 12.0, 0.25, 3.0])}

    def mean(call, limit):
        call()
        return next(seconds["product" if limit == 0.1 else "others"])

    monkeypatch.setattr(timing, "_mean", mean)
    facts = timing.measure("ViT_S16", (16, 32), batch=4, seconds=1.0, rounds=3)
    ceiling = 2 * 16**3 / 2.0  # of the middle round
    assert facts["ceiling"] == ceiling
    forward, training = facts["forward"], facts["training"]
    assert forward["images_per_second"] == 4 / 0.5  # of 0.5, 1 and 0.25 s for a batch
    assert forward["spread"] == 0.375 / 0.5
    assert forward["share_of_ceiling"] == pytest.approx(8 * 2 * MACS / ceiling)
    assert training["images_per_second"] == 4 * timing.STEPS / 6.0
    assert training["share_of_ceiling"] == pytest.approx(
        training["images_per_second"] * 6 * MACS / ceiling
    )
    assert facts["image_size"] == [16, 32] and facts["backend"] == keras.backend.backend()
    assert facts["memory"] > 2**27 and facts["device_memory"] is None


def test_the_command_writes_what_it_prints_and_compares(tiny, tmp_path, capsys):
    line = ["bench", "--image-size", "16x32", "--batch", "2", "--seconds", "0", "--rounds", "1"]
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert cli.main([*line, "--out", str(first), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts == json.loads(first.read_text())
    assert facts["model"] == "ViT_S16" and facts["batch"] == 2 and facts["dtype"] == "float32"
    facts["forward"]["images_per_second"] = 1e-9
    facts["training"]["images_per_second"] = 1e9
    first.write_text(json.dumps(facts))
    policy = ["--dtype", "mixed_bfloat16", "--compare", str(first), "--out", str(second)]
    assert cli.main([*line, *policy]) == 0
    title, beside, _, forward, training, *_ = capsys.readouterr().out.splitlines()
    assert "16x32" in title and "mixed_bfloat16" in title
    assert beside.startswith("beside ViT_S16") and "float32" in beside
    rate = json.loads(second.read_text())["forward"]["images_per_second"]
    assert forward.split()[0] == "forward" and forward.endswith(f"{rate / 1e-9:.2f}")
    assert training.split()[0] == "training" and training.endswith(" 0.00")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--model", "ViT_B17"], "Received: model='ViT_B17'"),
        (["--batch", "0"], "Received: batch=0"),
        (["--rounds", "0"], "Received: rounds=0"),
        (["--seconds", "-1"], "Received: seconds=-1"),
        (["--compare", "{folder}/models.json"], "one of --out"),
        (["--compare", "{folder}/missing.json"], "missing.json"),
    ],
)
def test_wrong_lines_are_answered_before_anything_is_measured(arguments, words, tmp_path, capsys):
    (tmp_path / "models.json").write_text("[]")
    assert cli.main(["bench", *(a.format(folder=tmp_path) for a in arguments)]) == 2
    assert words in capsys.readouterr().err
