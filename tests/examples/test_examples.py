"""Every example runs, shrunk, from its command line."""

import importlib.util
import json
import pathlib

import distributed_processes
import keras
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


def run_shrunk(name, *arguments, backend, devices=1):
    """What an example on several devices prints, in a process that has them."""
    if keras.backend.backend() != backend:
        pytest.skip(f"this example is one of KERAS_BACKEND={backend}")
    pytest.importorskip("tensorflow")
    path = EXAMPLES / f"{name}.py"
    command = [*arguments[: arguments.index("--")], path, *arguments[arguments.index("--") + 1 :]]
    (output,) = distributed_processes.finish(
        [distributed_processes.start(command, devices=devices)]
    )
    return output


def test_look_inside(tmp_path, capsys):
    pytest.importorskip("PIL")
    pytest.importorskip("matplotlib")
    numbers = load("look_inside").main(["--image-size", "32x48", f"--out={tmp_path}"])
    assert numbers["grid"] == (2, 3)
    assert len(numbers["last_block_looks"]) == 3  # heads
    # Within 2 x 3 patches of 16 pixels nothing is further away than this.
    assert 0 <= numbers["first_block_looks"][0] <= (16**2 + 32**2) ** 0.5
    assert "rollout is largest at patch" in capsys.readouterr().out
    names = ("filters", "positions", "distance", "rollout", "heads", "representations")
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.png" for name in names}


SHRUNK = ("--epochs=1", "--examples=64", "--batch-size=32", "--layers=1")


def test_train_tpu_strategy():
    arguments = ("--", "--cpu-devices=2", *SHRUNK)
    output = run_shrunk("train_tpu_strategy", *arguments, backend="tensorflow")
    assert "2 replicas" in output


def test_train_jax_mesh():
    arguments = ("--", "--batch-devices=2", "--model-devices=2", *SHRUNK)
    output = run_shrunk("train_jax_mesh", *arguments, backend="jax", devices=4)
    assert "block_0/mlp/hidden/kernel (64, 128): (64, 64) on each device" in output


def test_train_torchrun():
    arguments = ("-m", "torch.distributed.run", "--nproc-per-node=2", "--", *SHRUNK)
    output = run_shrunk("train_torchrun", *arguments, backend="torch")
    assert output.count("epoch 1: loss") == 1  # one process speaks


def test_tpu_smoke():
    output = run_shrunk("tpu_smoke", "--", "--cpu", "--steps=3", backend="jax", devices=2)
    assert "images a second" in output
    assert output.count("ok  ") == 3


def test_masked_patches(tmp_path, capsys):
    pytest.importorskip("tensorflow")
    pytest.importorskip("matplotlib")
    epochs = ["--pretrain-epochs=1", "--finetune-epochs=1", "--seeds=1"]
    arguments = [*epochs, "--examples=200", "--labels=100", f"--out={tmp_path}"]
    results = load("masked_patches").main(arguments)
    assert json.loads(capsys.readouterr().out.splitlines()[-1]).items() >= results.items()
    assert len(results["scratch"]) == len(results["pretrained"]) == 1
    assert results["gain"] == pytest.approx(results["pretrained"][0] - results["scratch"][0])
    assert (tmp_path / "masked_patches.png").stat().st_size > 10_000
