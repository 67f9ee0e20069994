"""One device and many give the same weights, losses, metrics and predictions.

All are held against one run in float64 without Keras, see `reference.py`.
"""

import keras
import numpy as np
import pytest
import worker
from distributed_processes import ROOT, run

BACKEND = keras.backend.backend()
TOLERANCE = 1e-6

# (spec, processes, devices of each). TensorFlow's worker has two logical CPUs under one process.
PATHS = {
    "jax": [
        ("off", 1, 1),
        ("data", 1, 4),
        ("model:2x2", 1, 4),
        ("fsdp:4", 1, 4),
        ("data", 2, 1),
        ("fsdp:4", 2, 2),
    ],
    "tensorflow": [("off", 1, 1), ("data", 1, 1), ("data", 2, 1)],
    "torch": [("off", 1, 1), ("data", 2, 1)],
}[BACKEND]
MANY = PATHS[1:]

golden = np.load(ROOT / "tests" / "goldens" / "distributed_training.npz")


def paths(chosen):
    return pytest.mark.parametrize("path", chosen, ids=lambda path: "-".join(map(str, path)))


@paths(PATHS)
def test_losses_and_weights_are_the_reference_s(path):
    for results in run(*path):
        np.testing.assert_allclose(results["history/loss"], golden["history/loss"], rtol=2e-6)
        for name in [name for name in golden if name.startswith("weight/")]:
            np.testing.assert_allclose(results[name], golden[name], atol=TOLERANCE, err_msg=name)


@paths(MANY)
def test_every_weight_is_that_of_one_device(path):
    (single,) = run(*PATHS[0])
    for results in run(*path):
        for name in [name for name in single if name.startswith("weight/")]:
            np.testing.assert_allclose(results[name], single[name], atol=TOLERANCE, err_msg=name)


@paths(PATHS)
def test_padding_counts_for_nothing_in_evaluate_and_validation(path):
    for results in run(*path):
        assert results["evaluate/accuracy"] == pytest.approx(golden["evaluate/accuracy"], abs=1e-6)
        assert results["evaluate/loss"] == pytest.approx(golden["evaluate/loss"], rel=5e-6)
        for name in ("loss", "accuracy"):
            last = results[f"history/val_{name}"][-1]
            assert last == pytest.approx(results[f"evaluate/{name}"], rel=1e-6)


@paths(PATHS)
def test_metrics_of_training_are_over_all_replicas(path):
    (single,) = run(*PATHS[0])
    for results in run(*path):
        np.testing.assert_allclose(results["history/accuracy"], single["history/accuracy"], 1e-6)
        assert {name for name in results if name.startswith("history/")} == {
            f"history/{prefix}{name}" for prefix in ("", "val_") for name in ("loss", "accuracy")
        }


@paths([path for path in PATHS if path[1] == 1 or BACKEND == "torch"])
def test_predictions_of_a_ragged_batch_are_cut(path):
    for results in run(*path):
        np.testing.assert_allclose(results["predictions"], golden["predictions"], atol=5e-5)


@paths([path for path in PATHS if path[1] == 1])
def test_any_number_of_examples_in_any_batches(path):
    (results,) = run(*path)
    labels = worker.images(worker.RAGGED, 2)[1]
    for count, batch_size in worker.OTHERS:
        name, logits = f"{count}/{batch_size}", golden["predictions"][:count]
        np.testing.assert_allclose(results[f"predictions/{name}"], logits, atol=5e-5)
        right = labels[:count]
        loss = np.log(np.exp(logits).sum(-1)) - logits[np.arange(count), right]
        assert results[f"loss/{name}"] == pytest.approx(loss.mean(), rel=1e-5)
        accuracy = (logits.argmax(-1) == right).mean()
        assert results[f"accuracy/{name}"] == pytest.approx(accuracy, abs=1e-6)


@paths([path for path in MANY if BACKEND != "jax" or path[1] == 1])
def test_dropout_differs_on_every_replica(path):
    rows = np.concatenate([results["masks"] for results in run(*path)]) > 0
    # 32 units of a half: equal by chance once in four thousand million.
    assert len({row.tobytes() for row in rows}) == len(rows)
    assert 0.3 < rows.mean() < 0.7


@paths(PATHS)
def test_hosts_replicas_and_the_chief(path):
    _, processes, devices = path
    replicas = {"off": 1, "model:2x2": 2}.get(path[0], processes * devices)
    if path == ("data", 1, 1):
        replicas = 2  # logical CPUs
    for rank, results in enumerate(run(*path)):
        wanted = [processes, rank, replicas, rank == 0, 16 // processes]
        assert results["facts"].tolist() == wanted


@pytest.mark.skipif(BACKEND != "torch", reason="the reference is written in PyTorch")
def test_the_reference_gives_the_golden():
    import reference

    for name, value in reference.run().items():
        np.testing.assert_allclose(value, golden[name], atol=1e-9, err_msg=name)
