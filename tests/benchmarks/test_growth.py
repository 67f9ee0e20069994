"""The benchmarks of growth and of switches: counts, slopes, accuracies; never times."""

import dataclasses
import json

import contender
import keras
import measure
import memory
import numpy as np
import peers
import pytest
import scaling
import switches

import keras_vit
import pipelines.sources.fashion_mnist as data

BACKEND = keras.config.backend()
once = pytest.mark.skipif(
    BACKEND != "tensorflow",
    reason="nothing here depends on the backend: tested with TensorFlow's",
)


def test_predicting_compiles_once_for_each_size_of_batch():
    found = memory.Contender("predict")
    first = found.work(5)["compilations"]
    assert found.work(10)["compilations"] == first
    assert first == 0 if BACKEND == "torch" else first >= 1


@pytest.mark.parametrize("part", ["rounds", "plain_rounds"])
def test_a_round_builds_fits_and_deletes(part):
    found = memory.Contender(part)
    assert found.work(1) == {"compilations": 0} and found._done == 1


@once
def test_the_model_of_keras_layers_has_the_same_sizes():
    ours, plain = memory.build(), memory.build_plain()
    position_embedding_and_class_token = (3 * 4 + 1) * 32 + 32
    assert ours.count_params() - plain.count_params() == position_embedding_and_class_token
    assert ours.output_shape == plain.output_shape


@once
def test_growth_is_from_the_first_tenth_to_the_last(monkeypatch, tmp_path):
    class Growing:
        failure = None

        def __init__(self, command, environment):
            self.calls = 0

        def ask(self, calls):
            self.calls += calls
            return {"resident": 100.0 + self.calls / 20, "compilations": min(self.calls, 7)}

        def close(self):
            pass

    monkeypatch.setattr(measure, "Worker", Growing)
    line = ["--backends", "jax", "--calls", "200", "--rounds", "20", "--out", str(tmp_path)]
    memory.main(line)
    readings = json.loads((tmp_path / "memory.json").read_text())["growth"]["jax"]["predict"]
    assert [r["calls"] for r in readings["readings"]] == list(range(20, 201, 20))
    text = (tmp_path / "memory.md").read_text()
    assert "| jax | 200 calls of predict | 101 | 106 | 110 | +8.9% | 7 | +0 |" in text
    assert "| jax | 20 models built, fitted, deleted | 100 | 101 | 101 | +0.9% |  |  |" in text


# Scaling.


def points(exponent, backend="jax"):
    """Of 1, 2 and 4 images: seconds as a power of their number; memory as it is counted."""
    for batch in (1, 2, 4):
        job = dataclasses.asdict(peers.Job("S/16", 224, batch))
        seconds = [3.0 * batch**exponent]
        yield {
            "backend": backend, "axis": "batch", **job, "macs": 10**9, "planned": 2**20 * batch,
            "ceiling": [1e9], "forward": seconds, "training": seconds, "memory": 2**21 * batch,
        }  # fmt: skip


@once
@pytest.mark.parametrize("exponent", [1.0, 2.0])
def test_slopes_are_the_exponents(exponent):
    slope = f"{exponent:.2f}"
    assert scaling.slopes(list(points(exponent))) == [slope, slope, "1.00"]


@once
def test_the_report_of_scaling_and_its_picture(tmp_path):
    found = list(points(1.0))
    found[2] |= {"training": []}
    del found[2]["memory"]
    text = scaling.report({**measure.surroundings(), "points": found})
    # 2 G multiply-adds, 4 GFLOP, in 6 s of 1 GFLOP/s; training takes three times as many
    assert "| jax | S/16 | 2 | 196 | 2.0 | 6.000 | 67% | 6.000 | 200% | 4 | 2.00 |" in text
    assert "| jax | S/16 | 4 | 196 | 4.0 | 12.000 | 67% | too large |  |  |  |" in text
    pytest.importorskip("matplotlib")
    scaling.plot(found, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").read_bytes()[:4] == b"\x89PNG"


@once
def test_a_point_is_measured_with_the_product_around_it(fake_workers, tmp_path):
    answer = {"seconds": 0.5, "resident": 100.0, "peak": 104.0}
    made = fake_workers({contender.PRODUCT: [{"flops": 1e9}], "keras_vit": [answer]})
    scaling.main(["--smoke", "--rounds", "2", "--out", str(tmp_path)])
    found = json.loads((tmp_path / "scaling.json").read_text())["points"]
    assert [(p["axis"], p["batch"]) for p in found] == [("batch", 1), ("batch", 4), ("tokens", 1)]
    assert all(p["memory"] == 4 * 2**20 and p["forward"] == [0.5, 0.5] for p in found)
    assert len(made) == 6 and all(worker.closed for worker in made)
    assert [r["task"] for r in made[1].requests] == ["forward"] * 3 + ["train"] + [
        "forget the peak", "train",
    ] * 2  # fmt: skip
    # Gradients, two slots of AdamW and its counters, besides the activations
    parameters = peers.ours.build(peers.Job("tiny/16", 32, 1)).count_params()
    assert found[0]["planned"] > 3 * 4 * parameters


# What users can switch on.


@pytest.fixture
def few_images(monkeypatch):
    rng = np.random.default_rng(0)
    labels = np.arange(100) % 2
    images = rng.integers(0, 100, (100, 28, 28, 1)) + 150 * labels[:, None, None, None]
    found = images.astype("uint8"), labels.astype("int32")
    monkeypatch.setattr(data, "fashion_mnist", lambda split: found)

    def small_model(patch_dropout_rate=0.0):
        sizes, rates = ((28, 28), 14, 1, 2, 16, 32), {"patch_dropout_rate": patch_dropout_rate}
        return keras_vit.VisionTransformer(
            *sizes, classes=10, classifier_activation=None, channels=1, **rates
        )

    monkeypatch.setattr(switches, "small_model", small_model)


def test_the_accuracy_of_a_trained_model_and_of_its_forms(few_images):
    found = switches.accuracy("plain", ("int8", "mixed_bfloat16"), epochs=12)["accuracy"]
    assert list(found) == ["trained", "int8", "mixed_bfloat16"]
    assert min(found.values()) > 0.9  # dark and bright are told apart in every form
    assert keras.config.dtype_policy().name == "float32"


@once
def test_switches_are_compared_with_the_plain_model(fake_workers, monkeypatch, tmp_path):
    monkeypatch.setattr(measure, "version", lambda package: "1.0")
    answers = [{"seconds": s, "peak": p} for s, p in ((9.0, 1.0), (2.0, 1000.0))]
    made = fake_workers({"keras_vit": answers, contender.PRODUCT: [{"flops": 1e9}]})
    line = ["--backends", "jax", "--models", "tiny/16", "--image-size", "32", "--rounds", "1"]
    switches.main([*line, "--parts", "speed", "--out", str(tmp_path)])
    train, forward = json.loads((tmp_path / "switches.json").read_text())["groups"]
    assert list(train["peers"])[1:] == list(switches.TRAINING)
    assert list(forward["peers"])[1:] == list(switches.FORWARD)
    jobs = [worker.job for worker in made if worker.name == "keras_vit"]
    assert [job["switch"] for job in jobs[1:6]] == [
        "", "rematerialize", "steps_per_execution", "jit_compile", "patch_dropout",
    ]  # fmt: skip
    assert jobs[1]["dtype"] == "mixed_bfloat16"
    row = "| jax | train | rematerialize | 8.00 | 1.00 ± 0.00 | 1000 | 1.00 |"
    assert row in (tmp_path / "switches.md").read_text()
