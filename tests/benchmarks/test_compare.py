"""What the comparisons have in common: turns, ratios, shares, tables; never times."""

import argparse
import json

import compare
import contender
import folding
import forward
import gpu
import import_time
import keras
import latency
import measure
import peers
import pytest
import run
import train_step

pytestmark = pytest.mark.skipif(
    keras.config.backend() != "tensorflow",
    reason="nothing here depends on the backend: tested with TensorFlow's",
)

OURS = [{"seconds": s, "peak": 900.0} for s in (9.0, 1.0, 2.0, 4.0)]  # the first is the warm-up
THEIRS = [{"seconds": s, "peak": 1000.0} for s in (9.0, 2.0, 2.0, 6.0)]
PRODUCT = [{"seconds": 1.0, "flops": f} for f in (9e9, 1e9, 2e9, 3e9)]
SLOWER = [{"seconds": 1.0, "flops": 1e9}]


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(measure, "version", lambda package: "1.0")


def workers(fake_workers, **others):
    products = {(contender.PRODUCT, backend): SLOWER for backend in ("tensorflow", "torch")}
    return fake_workers(
        {(contender.PRODUCT, "jax"): PRODUCT, "keras_vit": OURS, **products, **others}
    )


def parse(*arguments):
    parser = argparse.ArgumentParser()
    compare.add_arguments(parser, ["tiny/16"], batch=4, rounds=3, seconds=0.25)
    return parser.parse_args(arguments)


def test_ratios_are_of_the_rounds_and_shares_of_the_fastest_product(fake_workers, installed):
    made = workers(fake_workers, KerasHub=THEIRS, Flax="ModuleNotFoundError: No flax")
    options = parse("--backends", "jax")
    job = peers.Job("tiny/16", 32, 4)
    names = ["keras_vit", "KerasHub", "Flax"]
    found = compare.group(dict.fromkeys(names, (job, "jax")), options, {"task": "x"}, macs=10**8)
    ours, hub, flax = compare.rows(found)
    # 4 images in 2 s of 1e8 multiply-adds each, of 2e9 operations a second
    assert ours == ["jax", "tiny/16", "4", "keras_vit", "2.00", "", "20%", "900", ""]
    # ratios 2, 1 and 1.5 of the rounds
    assert hub == ["jax", "tiny/16", "4", "KerasHub", "2.00", "1.50 ± 0.50", "20%", "1000", "0.90"]
    assert flax[4] == "left out: ModuleNotFoundError: No flax"
    assert all(worker.closed for worker in made)
    assert {len(worker.requests) for worker in made} == {4}
    assert made[0].requests[0] == {"task": "x", "seconds": 0.25}


@pytest.mark.parametrize(
    "script, name, request_", [
        (forward, "forward", {"task": "forward"}),
        (latency, "latency", {"task": "forward"}),
        (train_step, "train_step", {"task": "train", "steps": 3}),
        (folding, "folding", {"task": "forward"}),
    ],
)  # fmt: skip
def test_each_command_writes_a_table_of_all_peers(
    script, name, request_, fake_workers, installed, tmp_path, capsys
):
    made = workers(fake_workers, **{peer: THEIRS for peer in peers.MODULES if peer != "keras_vit"})
    model = "R50+tiny/16" if name == "folding" else "tiny/16"
    line = ["--backends", "torch", "jax", "--models", model, "--rounds", "2"]
    script.main([*line, "--image-size", "32", "--batch", "2", "--out", str(tmp_path)])
    results = json.loads((tmp_path / f"{name}.json").read_text())
    expected = script.groups("jax", peers.Job(model)) if name == "folding" else peers.GROUPS["jax"]
    assert [group["backend"] for group in results["groups"]] == ["torch", "torch", "jax"]
    assert list(results["groups"][-1]["peers"]) == list(expected[0])
    assert {"date", "command", "versions", "machine", "settings"} <= results.keys()
    text = (tmp_path / f"{name}.md").read_text()
    labels = {label for group in results["groups"] for label in group["peers"]}
    assert all(f"| {label} |" in text for label in labels)
    assert "GFLOP/s of a matrix product: tensorflow 1, jax 1, torch 1" in text.replace(
        "jax 2", "jax 1"
    )
    asked = next(worker for worker in made if worker.name == "keras_vit").requests[0]
    assert {key: asked[key] for key in request_} == request_
    assert f"| {labels.pop()} |" in capsys.readouterr().out


def test_only_chooses_peers(fake_workers, installed):
    made = workers(fake_workers, timm=THEIRS)
    forward.main(["--backends", "torch", "--models", "tiny/16", "--rounds", "1", "--only", "timm"])
    assert [worker.name for worker in made if worker.name != contender.PRODUCT] == ["timm"]


def test_a_peer_compiled_is_its_own_name_and_folded_is_a_job():
    [eager, compiled] = folding.groups("torch", peers.Job("R50+B/16"))
    assert [job.folded for job, _ in eager.values()] == [True, False, False]
    assert list(compiled) == ["keras_vit, compiled: folded", "timm, compiled"]
    assert len(folding.groups("jax", peers.Job("R50+B/16"))) == 1


# The large GPU.


def test_the_gpu_is_compared_with_timm_on_every_backend(fake_workers, installed, tmp_path):
    made = workers(fake_workers, timm=THEIRS)
    gpu.main(["--smoke", "--out", str(tmp_path)])
    results = json.loads((tmp_path / "gpu.json").read_text())
    assert [(g["task"], g["model"]) for g in results["groups"]] == [
        ("forward", "tiny/16"), ("forward", "R50+tiny/16"),
        ("train", "tiny/16"), ("train", "R50+tiny/16"),
    ]  # fmt: skip
    ours = [w for w in made if w.name == "keras_vit"]
    assert [w.backend for w in ours] == ["jax", "tensorflow", "torch"] * 4
    assert all(w.job["resident"] for w in ours)
    assert [w.job["folded"] for w in ours[::3]] == [False, True, False, False]
    assert [w.job["dtype"] for w in ours[::3]] == ["bfloat16"] * 2 + ["mixed_bfloat16"] * 2
    text = (tmp_path / "gpu.md").read_text()
    # the round: theirs 2 s, ours 1 s for 2 images
    assert "| forward | tiny/16 | keras_vit: jax | 2 | 2.00 ± 0.00 |" in text
    assert "| forward | tiny/16 | timm | 1 |  |" in text


def test_what_there_is_no_time_for_is_said(fake_workers, installed, tmp_path):
    workers(fake_workers, timm=THEIRS)
    gpu.main(["--smoke", "--limit", "-1", "--out", str(tmp_path)])
    assert json.loads((tmp_path / "gpu.json").read_text())["groups"] == []
    assert (
        "No time was left for: tiny/16, forward, R50+tiny/16, forward, "
        in (tmp_path / "gpu.md").read_text()
    )


def test_the_full_form_compiles_what_torch_runs():
    labels = list(gpu.contenders(peers.Job(), smoke=False))
    assert labels[2:] == ["keras_vit, compiled: torch", "timm, compiled"]


# Imports and building.


def test_imports_are_of_new_processes_and_builds_take_turns(fake_workers, installed, tmp_path):
    made = fake_workers({"keras_vit": OURS, "KerasHub": THEIRS})
    line = ["--backends", "tensorflow", "--model", "tiny/16", "--rounds", "1"]
    import_time.main([*line, "--out", str(tmp_path)])
    results = json.loads((tmp_path / "import_time.json").read_text())
    found = results["imports"]["tensorflow"]
    assert len(found["keras"]) == len(found["keras_vit"]) == 1
    assert 0 < found["keras_vit"][0] and 0 < found["keras"][0]
    assert results["builds"]["tensorflow"] == {"keras_vit": [1.0], "KerasHub": [2.0]}
    assert made[0].requests == [{"task": "build"}] * 2
    text = (tmp_path / "import_time.md").read_text()
    assert "| tensorflow | tiny/16 | 1.00 ± 0.00 s | 2.00 ± 0.00 s | 0.50 ± 0.00 |" in text


def test_who_cannot_be_built_says_why():
    results = {
        **measure.surroundings(),
        "imports": {"jax": {"keras": [1.0, 2.0, 4.0], "keras_vit": [0.05, 0.06, 0.09]}},
        "builds": {"jax": {"keras_vit": [1.0], "KerasHub": "ModuleNotFoundError: none"}},
    }
    text = import_time.report(results, "L/16")
    assert "| jax | 2.00 ± 1.50 s | 60 ± 20 ms |" in text
    assert "| jax | L/16 | 1.00 ± 0.00 s | ModuleNotFoundError: none |  |" in text


# All of them.


def test_every_benchmark_that_is_run_is_a_script():
    folder = run.pathlib.Path(run.__file__).parent
    assert all((folder / f"{name}.py").is_file() for name in {**run.QUICK, **run.FULL})
    assert run.chosen(full=False) == run.QUICK and run.chosen(full=True) == run.FULL
    assert run.chosen(False, ["forward", "memory"]) == {
        "forward": run.QUICK["forward"], "memory": run.FULL["memory"],
    }  # fmt: skip


def test_one_that_fails_does_not_stop_the_others(monkeypatch, capsys):
    monkeypatch.setattr(run, "run", lambda name, arguments, out: int(name == "forward"))
    with pytest.raises(SystemExit, match="failed: forward"):
        run.main([])
    assert "== import_time" in capsys.readouterr().out


def test_what_takes_one_backend_is_run_on_each(monkeypatch):
    started = []

    class Done:
        returncode = 0

    def start(command, env):
        started.append((run.pathlib.Path(command[1]).name, env["KERAS_BACKEND"]))
        return Done

    monkeypatch.setattr(run.subprocess, "run", start)
    assert not run.run("load_weights", [], None) and not run.run("forward", [], None)
    assert started == [("load_weights.py", b) for b in ("tensorflow", "jax", "torch")] + [
        ("forward.py", "jax")
    ]
