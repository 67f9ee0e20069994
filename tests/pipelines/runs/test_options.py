"""The commands that train, and sweeps."""

import csv
import json
import pathlib

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow")

from quick_compilation import quickly

import pipelines
from pipelines import cli
from pipelines.distribution.engine import Engine
from pipelines.distribution.spec import parse
from pipelines.recipes import resolve, smoke
from pipelines.recipes.config import replace
from pipelines.runs import sweep


def test_a_smoke_run_of_the_command(tmp_path, capsys):
    out = tmp_path / "run"
    words = ["pretrain", "masked_patch", "--smoke", "--out", str(out)]
    with quickly():
        assert cli.main([*words, "--distribute", "data"]) == 0  # here of one device
    assert "Best epoch" in capsys.readouterr().out
    assert (out / "final.keras").exists()
    config = json.loads((out / "config.json").read_text())
    assert config["config"]["objective"] == "masked_patch"
    # A run goes on only where it is asked to.
    assert cli.main(words) == 2
    assert "--resume" in capsys.readouterr().err


def test_a_dry_run_prints_notes_and_fields(capsys):
    words = ["finetune", "finetune_pets", "--dry-run", "--weights", "w.npz", "--data", "photos/"]
    assert cli.main([*words, "--optimizer.learning_rate=3e-3"]) == 0
    printed = capsys.readouterr().out
    assert "Oxford-IIIT Pets" in printed
    assert "optimizer.learning_rate = 0.003" in printed
    assert "model.weights = w.npz" in printed
    assert "data.source = photos/" in printed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pretrain", "fashion"], "no recipe 'fashion'"),
        (["pretrain", "folder"], "--data photos/"),
        (["pretrain", "fashion_mnist", "--lr=1"], "no field 'lr'"),
        (["pretrain", "fashion_mnist", "more"], "--name=value"),
        (["finetune", "fashion_mnist_larger"], "--weights runs/NAME/final.keras"),
        (["pretrain", "fashion_mnist", "--model.name=ViT"], "'VisionTransformer'"),
        (["pretrain", "fashion_mnist", "--model.arguments.heads=2"], "heads=2"),
        (["pretrain", "fashion_mnist", "--sweep", "batch_size"], "needs values"),
        (["pretrain", "fashion_mnist", "--sweep", "seed=1", "--data.validation=0"], "held-out"),
        (["pretrain", "masked_patch", "--sweep", "seed=1,2"], "compares accuracies"),
    ],
)
def test_mistakes_are_said_in_a_sentence(words, said, tmp_path, capsys):
    assert cli.main([*words, "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("keras-vit: error: ") and said in error


def fake_train(accuracies, given=None):
    """In the place of `train`: accuracies by learning rate and seed; what was run is listed."""
    runs, given = [], [] if given is None else given

    def train(recipe, folder, **options):
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        runs.append((pathlib.Path(folder).name, recipe.data.dev, recipe.seed, options["resume"]))
        given.append({name: options[name] for name in options if name != "resume"})
        score = accuracies[recipe.optimizer.learning_rate] + recipe.seed / 10
        return {"history": [{"val_accuracy": 0.0}, {"val_accuracy": score}]}

    return train, runs


def test_a_sweep_chooses_on_held_out_images_and_trains_on_all(tmp_path, monkeypatch):
    train, runs = fake_train({0.003: 0.2, 0.01: 0.5, 0.03: 0.5})
    monkeypatch.setattr(sweep, "train", train)
    monkeypatch.setattr(sweep, "_forget", lambda: None)
    monkeypatch.setattr(sweep, "has_own_validation", lambda data: True)
    recipe = resolve("augreg_finetune")
    text = "optimizer.learning_rate=.003,.01,.03"
    result = sweep.sweep(recipe, tmp_path, text, seeds=3)
    assert runs == [
        ("try-.003", True, 0, False),
        ("try-.01", True, 0, False),
        ("try-.03", True, 0, False),
        ("final-0", False, 0, False),
        ("final-1", False, 1, False),
        ("final-2", False, 2, False),
    ]
    assert result.chosen == ".01"
    np.testing.assert_allclose(result.accuracies, (0.5, 0.6, 0.7))
    assert "trained on all, 3 seeds: 60.00% +- 8.16%" in result.table()
    rows = list(csv.reader((tmp_path / "sweep.csv").read_text().splitlines()))
    assert rows[1] == ["held-out", ".003", "0.2"] and rows[-1][:2] == ["final", ".01"]
    runs.clear()
    sweep.sweep(recipe, tmp_path, text, seeds=1)
    assert all(resume for _, _, _, resume in runs)


def test_a_sweep_of_data_without_a_test_part_does_not_claim_all(tmp_path, monkeypatch):
    train, _ = fake_train({0.003: 0.2, 0.01: 0.5})
    monkeypatch.setattr(sweep, "train", train)
    monkeypatch.setattr(sweep, "_forget", lambda: None)
    smoke.write_images(tmp_path / "images.npz")
    with np.load(tmp_path / "images.npz") as arrays:
        np.savez(tmp_path / "whole.npz", x_train=arrays["x_train"], y_train=arrays["y_train"])
    for name, words in (("images", "trained on all"), ("whole", "on the held-out images that")):
        recipe = replace(resolve("augreg_finetune"), data={"source": str(tmp_path / f"{name}.npz")})
        result = sweep.sweep(recipe, tmp_path, "optimizer.learning_rate=.003,.01", seeds=1)
        assert words in result.table() and result.on_all == (name == "images")


def test_a_sweep_without_values_takes_the_recipes(tmp_path, monkeypatch):
    train, runs = fake_train({0.001: 0.3, 0.003: 0.2, 0.01: 0.1})
    monkeypatch.setattr(sweep, "train", train)
    monkeypatch.setattr(sweep, "_forget", lambda: None)
    monkeypatch.setattr(sweep, "has_own_validation", lambda data: True)
    result = sweep.sweep(resolve("augreg_finetune"), tmp_path, "optimizer.learning_rate", seeds=1)
    assert list(result.tried) == ["0.001", "0.003", "0.01"]
    assert result.chosen == "0.001"


def test_the_options_of_the_command_reach_every_run_of_a_sweep(tmp_path, monkeypatch, capsys):
    given = []
    train, _ = fake_train({0.001: 0.3, 0.003: 0.2, 0.01: 0.1}, given)
    monkeypatch.setattr(sweep, "train", train)
    monkeypatch.setattr(sweep, "_forget", lambda: None)
    monkeypatch.setattr(sweep, "has_own_validation", lambda data: True)
    engines = []

    def distribute(spec):
        engines.append(Engine(parse(spec)))
        return engines[-1]

    monkeypatch.setattr(pipelines, "distribute", distribute, raising=False)
    words = ["finetune", "augreg_finetune", "--sweep", "optimizer.learning_rate", "--seeds=1"]
    words += ["--distribute", "data", "--save-every", "5", "--out", str(tmp_path)]
    assert cli.main(words) == 0
    assert [engine.spec.kind for engine in engines] == ["data"] * 4  # three values, one seed
    common = {"name": "augreg_finetune", "save_every": 5}
    assert given == [{**common, "distribute": engine} for engine in engines]
    with pytest.raises(ValueError, match="seeds=0"):
        sweep.sweep(resolve("augreg_finetune"), tmp_path, "optimizer.learning_rate", seeds=0)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="two runs, which other tests have everywhere"
)
def test_a_sweep_of_real_runs_is_read_back_from_their_folders(tmp_path):
    smoke.write_images(tmp_path / "images.npz")
    small = smoke.smoke(resolve("augreg_finetune"), tmp_path / "images.npz")
    small = replace(small, data={"augment": None})
    with quickly():
        first = sweep.sweep(small, tmp_path / "s", "optimizer.momentum=0.5", seeds=1, verbose=0)
        again = sweep.sweep(small, tmp_path / "s", "optimizer.momentum=0.5", seeds=1, verbose=0)
    assert first == again
    assert keras.saving.load_model(tmp_path / "s" / "final-0" / "final.keras").spec.classes == 4
