"""Whole runs of `train` on many devices and processes: the same as on one, and after any end.

Every launch of processes takes seconds, so that one of them serves several tests: it trains one run
after the other, and what was killed in one launch goes on in the next.
"""

import atexit
import csv
import functools
import json
import pathlib
import shutil
import signal
import tempfile
import time

import keras
import numpy as np
import pytest
from distributed_processes import ROOT, finish, free_ports, start

pytest.importorskip("tensorflow")

from pipelines.recipes import smoke

BACKEND = keras.backend.backend()
SCRIPT = ROOT / "tests" / "pipelines" / "distribution" / "run_worker.py"

# Launches: (processes, devices of each, specs). TensorFlow's one process has two logical CPUs.
LAUNCHES = {
    "jax": [(1, 4, ("data", "model:2x2", "fsdp:4")), (2, 2, ("data", "fsdp:4"))],
    "tensorflow": [(1, 1, ("data",)), (2, 1, ("data",))],
    "torch": [(2, 1, ("data",))],
}[BACKEND]
PATHS = [
    (processes, devices, specs, spec) for processes, devices, specs in LAUNCHES for spec in specs
]
SEVERAL = [launch for launch in LAUNCHES if launch[0] > 1]
EVALUATED = [path for path in PATHS if path[0] > 1 or path[-1] == "data"]
KILLED, RESUMED = 5, 4  # after the fifth of six batches; the state is of every second
SURVIVES = 150  # seconds, of which JAX takes 60 to miss the other's heartbeat
PATIENCE = 600  # seconds, of a launch on a busy machine

pytestmark = pytest.mark.timeout(3 * PATIENCE)


def paths(found):
    return pytest.mark.parametrize("path", found, ids=lambda path: f"{path[0]}-{path[-1]}")


@functools.cache
def folder():
    """Where all runs of this session are, with the images and the run of one device."""
    made = pathlib.Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, made)
    smoke.write_images(made / "images.npz")
    finish([start([SCRIPT, made, "off/evaluated/exact-off"])], timeout=PATIENCE)
    return made


def name(kind, processes, spec):
    return f"{kind}-{processes}-{spec.replace(':', '_')}"


def launch(processes, devices, runs):
    """Starts the processes of a launch with these runs."""
    ports = free_ports(processes)
    arguments = [SCRIPT, folder(), *runs]
    # What goes on was compiled before it was killed.
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(folder() / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    return [start(arguments, rank, processes, devices, ports, cache) for rank in range(processes)]


@functools.cache
def whole(processes, devices, specs):
    """Trains the runs that nothing stops; then in several processes one that a scheduler stops."""
    runs = []
    for spec in specs:
        evaluated = (processes, devices, specs, spec) in EVALUATED
        exact = "evaluated" if evaluated else "exact"
        runs.append(f"{spec}/{exact}/{name('exact', processes, spec)}")
        runs.append(f"{spec}/random/{name('whole', processes, spec)}")
    if processes > 1:
        runs.append(f"{_stopped(processes, specs)}/{processes - 1}/2/{signal.SIGTERM.value}")
    code = 143 if processes > 1 else 0
    finish(launch(processes, devices, runs), code=code, timeout=PATIENCE)


def _stopped(processes, specs):
    return f"{specs[0]}/random/{name('stopped', processes, specs[0])}"


@functools.cache
def killed(processes, devices, specs):
    """Kills a run of every spec in the middle of an epoch, and goes on with each in a new launch.

    Returns:
        What the processes that outlived the killed one ended with: a list of (code, text, seconds).
    """
    survivors = []
    going_on = [_stopped(processes, specs)] if processes > 1 else []
    for spec in specs:
        run = f"{spec}/random/{name('cut', processes, spec)}"
        last = f"{run}/{processes - 1}/{KILLED}/{signal.SIGKILL.value}"
        survivors += _killed(launch(processes, devices, [*going_on, last]))
        going_on = [run]
    finish(launch(processes, devices, going_on), timeout=PATIENCE)
    return survivors


def _killed(processes):
    """Waits for the last process to be killed, then for the others to end by themselves."""
    *others, last = processes
    try:
        assert _ends(last, PATIENCE) == -signal.SIGKILL
        began, ends = time.monotonic(), []
        for other in others:
            code = _ends(other, SURVIVES)
            ends.append((code, _text(other), time.monotonic() - began))
        return ends
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.output.close()


def _ends(process, seconds):
    until = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    return process.poll()


def _text(process):
    process.output.seek(0)
    return process.output.read()


def results(kind, processes, spec):
    """What each process of a run says of it."""
    stem = name(kind, processes, spec)
    return [json.loads((folder() / f"{stem}-{rank}.json").read_text()) for rank in range(processes)]


def off():
    return json.loads((folder() / "exact-off-0.json").read_text())


def arrays(stem):
    with np.load(folder() / f"{stem}.npz") as file:
        return dict(file)


@paths(PATHS)
def test_a_run_on_many_devices_is_that_of_one(path):
    processes, devices, specs, spec = path
    whole(processes, devices, specs)
    single, many = arrays("exact-off"), arrays(name("exact", processes, spec))
    assert single.keys() == many.keys() and len(single) > 40
    for key, value in single.items():
        np.testing.assert_allclose(many[key], value, atol=1e-6, err_msg=key)
    for of_process in results("exact", processes, spec):
        assert of_process["steps"] == [1, 2, 3, 4, 5, 6]
        for row, wanted in zip(of_process["history"], off()["history"], strict=True):
            assert row.keys() == wanted.keys() >= {"loss", "val_loss", "few_shot_5"}
            for column in row.keys() - {"seconds"}:
                assert row[column] == pytest.approx(wanted[column], rel=2e-6), column


@paths(PATHS)
def test_one_process_writes_and_all_say_the_same(path):
    processes, devices, specs, spec = path
    whole(processes, devices, specs)
    run = folder() / name("whole", processes, spec)
    expected = {"config.json", "log.csv", "best.keras", "last.keras", "final.keras"}
    assert expected <= {entry.name for entry in run.iterdir()}
    assert len(list((run / "tensorboard").iterdir())) == 1  # a file for every process that writes
    assert not [entry for entry in run.iterdir() if entry.name.startswith(".")]
    rows = list(csv.DictReader((run / "log.csv").read_text().splitlines()))
    assert [row["step"] for row in rows] == ["3", "6"]
    said = results("whole", processes, spec)
    for of_process in said:
        assert of_process["best"] == said[0]["best"]
        for row, wanted in zip(of_process["history"], said[0]["history"], strict=True):
            assert {**row, "seconds": 0} == {**wanted, "seconds": 0}
    model = keras.saving.load_model(run / "final.keras")
    assert model.spec.class_names == ("0", "1", "2", "3")


@paths(EVALUATED)
def test_evaluation_on_many_devices_is_that_of_one(path):
    processes, devices, specs, spec = path
    whole(processes, devices, specs)
    wanted = off()
    for of_process in results("exact", processes, spec):
        assert of_process["confusion"] == wanted["confusion"]
        assert of_process["shots"] == wanted["shots"]
        for column in ("count", "top1", "loss", "calibration_error"):
            value = of_process["evaluation"][column]
            assert value == pytest.approx(wanted["evaluation"][column], abs=1e-6), column
    assert np.sum(wanted["confusion"]) == 10
    single, many = (features(stem) for stem in ("exact-off", name("exact", processes, spec)))
    assert [len(part) for part in many] == [10, 24]
    for one, other in zip(single, many, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-6)


def features(stem):
    """The features of the 10 and of the 24 images that a run has left."""
    files = (folder() / f"{stem}-features").glob("features-*.npy")
    return sorted((np.load(path) for path in files), key=len)


@paths(PATHS)
def test_a_killed_run_goes_on_to_the_same_end(path):
    processes, devices, specs, spec = path
    whole(processes, devices, specs)
    killed(processes, devices, specs)
    one, other = (arrays(name(kind, processes, spec)) for kind in ("whole", "cut"))
    assert one.keys() == other.keys()
    for key, value in one.items():
        np.testing.assert_array_equal(value, other[key], err_msg=key)
    for of_process in results("cut", processes, spec):
        assert of_process["steps"] == list(range(RESUMED + 1, 7))  # in the middle of an epoch
        assert of_process["position"] == 6


@paths(SEVERAL)
def test_all_stop_where_one_is_asked_to(path):
    processes, _, specs = path
    whole(*path)
    killed(*path)
    one, other = (arrays(name(kind, processes, specs[0])) for kind in ("whole", "stopped"))
    for key, value in one.items():
        np.testing.assert_array_equal(value, other[key], err_msg=key)
    for of_process in results("stopped", processes, specs[0]):
        # They ask each other after some seconds of batches, here after the second or the third.
        assert of_process["steps"] in ([3, 4, 5, 6], [4, 5, 6])


@paths(SEVERAL)
def test_the_survivors_end_soon_and_say_why(path):
    for code, text, seconds in killed(*path):
        assert code not in (0, None), text
        assert "Another of the 2 processes has ended" in text or "heartbeat" in text
        assert seconds < SURVIVES
