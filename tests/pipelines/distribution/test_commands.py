"""`keras-vit ... --distribute` on two virtual devices, or under torchrun in two processes."""

import json

import keras
import pytest
from distributed_processes import ROOT, finish, start

pytest.importorskip("tensorflow")

from pipelines.evaluation.evaluate import evaluate
from pipelines.evaluation.fewshot_sources import few_shot

SCRIPT = ROOT / "tests" / "pipelines" / "distribution" / "command_lines.py"
PROCESSES = 2 if keras.backend.backend() == "torch" else 1
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """(folder of the run, (code, output, errors) of each line, by process)."""
    folder = tmp_path_factory.mktemp("commands")
    many = ["--distribute", "data"]
    train = ["pretrain", "better_plain_vit", "--smoke", "--out", str(folder / "run"), *many]
    given = [
        "--model",
        str(folder / "run" / "final.keras"),
        "--data",
        str(folder / "run/noise.npz"),
    ]
    given += [*many, "--json"]
    lines = [
        ["pretrain", "fashion_mnist", "--batch_size=9", "--out", str(folder / "odd"), *many],
        train,
        train,
        [*train, "--resume"],
        ["evaluate", *given, "--batch-size", "8"],
        ["fewshot", *given, "--batch-size", "6", "--shots", "1", "2"],
    ]
    launcher = TORCHRUN if PROCESSES > 1 else []
    finish([start([*launcher, SCRIPT, folder / "out", json.dumps(lines)], devices=2)])
    outs = [json.loads((folder / f"out-{rank}.json").read_text()) for rank in range(PROCESSES)]
    return folder, outs


def test_every_process_ends_alike_and_one_of_them_prints(run):
    _, outs = run
    for rank, lines in enumerate(outs):
        assert [code for code, _, _ in lines] == [2, 0, 2, 0, 0, 0], lines
        for _, printed, _ in lines[3:]:
            assert bool(printed) == (rank == 0)
    assert "Best epoch" in outs[0][1][1]


def test_two_devices_are_used(run):
    folder, outs = run
    for lines in outs:
        assert "The 2 replicas of data must divide the batch" in lines[0][2]
        assert "holds a run already" in lines[2][2]
    assert not (folder / "odd").exists()


def test_evaluate_and_fewshot_say_what_one_device_says(run):
    folder, outs = run
    model = keras.saving.load_model(folder / "run" / "final.keras")
    noise = str(folder / "run" / "noise.npz")
    wanted = evaluate(model, noise).to_dict()
    said = json.loads(outs[0][4][1])
    assert (said["count"], said["top1"]) == (10, wanted["top1"])
    assert said["loss"] == pytest.approx(wanted["loss"], abs=1e-6)
    assert said["per_class"] == [list(row) for row in wanted["per_class"]]
    shots = few_shot(model, noise, shots=(1, 2))
    assert json.loads(outs[0][5][1]) == {str(n): list(values) for n, values in shots.items()}
