"""Every example runs, shrunk, from its command line."""

import importlib.util
import json
import pathlib

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_run_here():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {path.stem for path in EXAMPLES.glob("*.py")} <= tested


def test_quickstart(tmp_path, capsys):
    pytest.importorskip("tensorflow")
    pytest.importorskip("matplotlib")
    arguments = ["--epochs=1", "--finetune-epochs=1", "--examples=128", f"--out={tmp_path}"]
    results = load("quickstart").main(arguments)
    assert json.loads(capsys.readouterr().out.splitlines()[-1]).items() >= results.items()
    assert results["reload_difference"] <= 1e-6
    assert 0 <= results["accuracy_high"] <= 1
    pictures = {"learning_curves.png", "position_similarity.png", "attention_rollout.png"}
    assert {path.name for path in tmp_path.iterdir()} == {"fashion_mnist.keras", *pictures}


def test_one_image(capsys):
    pytest.importorskip("PIL")
    lines = load("one_image").main([])
    shapes = {symbol.split(":")[0]: shape for _, symbol, shape in lines}
    # chelsea.png is 451 wide and 300 high: 18 x 28 whole patches of 16.
    assert shapes["x_p E"] == (1, 504, 192)
    assert shapes["A (app. A)"] == (1, 3, 505, 505)
    assert shapes["y (eq. 4)"] == (1, 192)
    assert "x_class" in capsys.readouterr().out


def test_compare_families(tmp_path, capsys):
    pytest.importorskip("tensorflow")
    pytest.importorskip("matplotlib")
    outcomes = load("compare_families").main(["--epochs=1", "--examples=100", f"--out={tmp_path}"])
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])["families"]
    assert [outcome.family for outcome in outcomes] == ["ViT", "hybrid", "ResNet (BiT)"]
    assert [family["macs"] for family in printed] == [outcome.macs for outcome in outcomes]
    macs = [outcome.macs for outcome in outcomes]
    assert max(macs) / min(macs) < 1.1  # they are compared at the same compute
    assert all(len(outcome.accuracies) == 1 for outcome in outcomes)
    assert (tmp_path / "compare_families.png").stat().st_size > 10_000
