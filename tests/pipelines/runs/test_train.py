"""Runs that are stopped and go on, and what they write."""

import csv
import json
import os
import shutil
import signal
import time

import keras
import numpy as np
import other_processes
import pytest

pytest.importorskip("tensorflow")

from quick_compilation import quickly
from run_in_process import recipe

import keras_vit
from pipelines._tensorflow import tf
from pipelines.distribution.engine import Engine
from pipelines.recipes import resolve, smoke
from pipelines.recipes.config import replace
from pipelines.runs import state as run_state
from pipelines.runs.callback import RunCallback, Terminated
from pipelines.runs.data import open_data
from pipelines.runs.folder import RunFolder
from pipelines.runs.train import train

SCRIPT = other_processes.ROOT / "tests" / "run_in_process.py"
# 24 images in batches of 8: 3 batches an epoch, 12 batches of 6 updates in all.


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing stops; `(folder, facts)`."""
    folder = tmp_path_factory.mktemp("runs")
    smoke.write_images(folder / "images.npz")
    small = recipe(folder / "images.npz", few_shot=True)
    with quickly():
        return folder / "whole", train(small, folder / "whole", name="smoke", verbose=0)


def arrays(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files if name != run_state.FACTS}


def assert_same_state(one, other):
    one, other = arrays(one), arrays(other)
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def without_times(history):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history]


def test_a_run_writes_its_files(whole):
    folder, facts = whole
    assert {path.name for path in folder.iterdir()} >= {
        "config.json",
        "log.csv",
        "tensorboard",
        "state.npz",
        "best.keras",
        "last.keras",
        "final.keras",
        "learning_curves.png",
    }
    rows = list(csv.DictReader((folder / "log.csv").read_text().splitlines()))
    assert [int(row["step"]) for row in rows] == [1, 3, 4, 6]  # 12 batches, two an update
    assert [row["epoch"] for row in rows] == ["1", "2", "3", "4"]
    assert float(rows[-1]["learning_rate"]) == 0.0  # the end of the cosine
    assert 0 <= float(rows[0]["few_shot_5"]) <= 1
    assert facts["position"] == 12
    config = json.loads((folder / "config.json").read_text())
    assert config["recipe"] == "smoke"
    assert config["config"]["optimizer"]["averaging"] == 0.8
    assert config["data"]["training_images"] == 24


def test_the_final_model_gives_probabilities_of_the_averages(whole):
    folder, _ = whole
    model = keras.saving.load_model(folder / "final.keras")
    images = np.random.default_rng(0).uniform(-1, 1, (2, 32, 48, 3))
    probabilities = keras.ops.convert_to_numpy(model(images))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert model.spec.class_names == ("0", "1", "2", "3")
    state = arrays(folder / "state.npz")
    head = keras.ops.convert_to_numpy(model.get_layer("head").kernel)
    matching = [
        name for name, value in state.items() if value.shape == head.shape and (value == head).all()
    ]
    assert matching and all(name.startswith("optimizer/") for name in matching)


def test_validation_counts_every_image_once(whole):
    folder, facts = whole
    # The last model is the final one. 10 images in batches of 8: 6 rows of padding.
    model = keras.saving.load_model(folder / "last.keras")
    with np.load(folder.parent / "images.npz") as file:
        images, labels = file["x_val"], file["y_val"]
    from pipelines.images.crops import evaluation_view

    pixels = np.stack([evaluation_view(image, model.spec) for image in images])
    p = keras.ops.convert_to_numpy(model(keras_vit.preprocess_input(pixels, model)))
    last = facts["history"][-1]
    np.testing.assert_allclose(last["val_loss"], -np.log(p[range(10), labels]).mean(), rtol=1e-4)
    np.testing.assert_allclose(last["val_accuracy"], (p.argmax(1) == labels).mean(), rtol=1e-6)


def test_the_loss_of_masked_patches_is_that_of_the_images(tmp_path):
    smoke.write_images(tmp_path / "images.npz")
    small = smoke.smoke(resolve("masked_patch"), tmp_path / "images.npz")
    with quickly():
        (row,) = train(small, tmp_path / "run", verbose=0)["history"]
    # After two small updates all 512 colours are nearly alike. 10 images in batches of 8.
    np.testing.assert_allclose([row["loss"], row["val_loss"]], np.log(512), rtol=0.01)


def test_sigterm_saves_and_the_run_goes_on_to_the_same_end(whole, monkeypatch):
    folder, facts = whole
    small = recipe(folder.parent / "images.npz", few_shot=True)
    after_batch = RunCallback.on_train_batch_end

    def stop(self, batch, logs=None):
        if self.position == 3:  # during the fourth of twelve batches, the first of an epoch
            os.kill(os.getpid(), signal.SIGTERM)
        after_batch(self, batch, logs)

    other = folder.parent / "stopped"
    with quickly():
        with monkeypatch.context() as patch:
            patch.setattr(RunCallback, "on_train_batch_end", stop)
            with pytest.raises(Terminated) as stopped:
                train(small, other, verbose=0)
        assert stopped.value.code == 143
        assert run_state.read_facts(other / "state.npz")["position"] == 4
        assert not (other / "final.keras").exists()
        # What a process that was killed while it wrote leaves is not taken for a state.
        (other / ".state.npz.0.tmp").write_bytes(b"half")
        resumed = train(small, other, resume=True, verbose=0)
    assert not (other / ".state.npz.0.tmp").exists()
    assert_same_state(folder / "state.npz", other / "state.npz")
    assert [row["step"] for row in resumed["history"]] == [1, 3, 4, 6]
    assert without_times(resumed["history"])[2:] == without_times(facts["history"])[2:]


def test_a_killed_process_goes_on_to_the_same_end(tmp_path):
    smoke.write_images(tmp_path / "images.npz")
    whole = other_processes.start(SCRIPT, tmp_path / "whole")
    killed = other_processes.start(SCRIPT, tmp_path / "killed", 0.3)
    state = tmp_path / "killed" / "state.npz"
    until = time.monotonic() + 200
    while not state.exists() or run_state.read_facts(state)["position"] < 5:
        assert killed.poll() is None, killed.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)
    killed.kill()
    killed.communicate()
    assert 5 <= run_state.read_facts(state)["position"] < 12
    other_processes.finish(whole)
    other_processes.finish(other_processes.start(SCRIPT, tmp_path / "killed"))
    assert_same_state(tmp_path / "whole" / "state.npz", state)


def test_what_may_not_be_resumed(whole):
    folder, facts = whole
    small = recipe(folder.parent / "images.npz", few_shot=True)
    with pytest.raises(ValueError, match="holds a run already.*--resume"):
        train(small, folder, verbose=0)
    changed = replace(small, optimizer={"learning_rate": 0.5})
    with pytest.raises(ValueError, match="optimizer.learning_rate was 0.001 and is 0.5"):
        train(changed, folder, resume=True, verbose=0)
    assert train(small, folder, resume=True, verbose=0)["history"] == facts["history"]


@pytest.mark.parametrize("damage", ["empty", "half", "noise", "one byte", "no facts"])
def test_a_damaged_state_is_said_to_be_one(damage, whole, tmp_path):
    good = (whole[0] / "state.npz").read_bytes()
    half = len(good) // 2
    flipped = bytearray(good)
    flipped[half] ^= 255  # among the numbers of a variable
    bad = {"empty": b"", "half": good[:half], "noise": b"\x01" * 999, "one byte": bytes(flipped)}
    path = tmp_path / "state.npz"
    if damage == "no facts":
        np.savez(path, **arrays(whole[0] / "state.npz"))
    else:
        path.write_bytes(bad[damage])
    with pytest.raises(ValueError, match="state.npz is damaged.*begin the run anew"):
        run_state.read_facts(path)
        with run_state._opened(path) as kept:  # as `restore_state` does
            assert all(run_state._array(kept, name, path).size for name in kept.files)


def test_other_images_are_no_resumption(whole, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    small = recipe(whole[0].parent / "images.npz", few_shot=True)
    record = json.loads((folder / "config.json").read_text())
    record["data"]["training_images"] = 23
    (folder / "config.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match="the data it was begun with.*was 23 and is 24"):
        train(small, folder, resume=True, verbose=0)
    (folder / "config.json").write_text("")
    with pytest.raises(ValueError, match="config.json is not what a run writes"):
        train(small, folder, resume=True, verbose=0)


def test_classes_that_are_asked_for_bound_the_labels(whole, tmp_path):
    source = whole[0].parent / "images.npz"  # of four classes, 0 to 3
    small = recipe(source)
    arguments = dict(small.model.arguments)
    with pytest.raises(ValueError, match="Label 3 at index 3 .* classes are 0..2"):
        fewer = replace(small, model={"arguments": {**arguments, "classes": 3}})
        train(fewer, tmp_path / "run", verbose=0)
    more = open_data(replace(small, model={"arguments": {**arguments, "classes": 6}}))
    assert more.class_names == more.validation.class_names == tuple("012345")
    named = tmp_path / "named.npz"
    with np.load(source) as file:
        np.savez(named, **file, class_names=["ant", "bee", "cat", "dog"])
    other = replace(small, model={"arguments": {**arguments, "classes": 6}})
    with pytest.raises(ValueError, match="4 classes: 'ant'.*model.arguments.classes=6"):
        train(replace(other, data={"source": str(named)}), tmp_path / "run", verbose=0)
    assert not (tmp_path / "run" / "config.json").exists()


def test_processes_that_differ_are_refused(whole, tmp_path):
    small = recipe(whole[0].parent / "images.npz")

    def answers(other):
        engine = Engine()
        engine.hosts = engine.replicas = 2
        engine.gather = lambda numbers: [list(numbers), other(list(numbers))]
        return engine

    with pytest.raises(ValueError, match="same recipe on the same data.*checksums"):
        other_data = answers(lambda numbers: [numbers[0] + 1, *numbers[1:]])
        train(small, tmp_path / "run", distribute=other_data)
    with pytest.raises(ValueError, match="that all processes see.*other files for process 1"):
        other_disk = answers(lambda numbers: [numbers[0], 1, 1, 0, 0])
        train(small, tmp_path / "run", distribute=other_disk)
    assert not (tmp_path / "run" / "config.json").exists()
    with pytest.raises(ValueError, match="save_every=0"):
        train(small, tmp_path / "other", save_every=0)
    assert not (tmp_path / "other").exists()


def test_a_run_where_only_tensorflow_reaches(whole):
    images = whole[0].parent / "images.npz"
    out, source = "ram://bucket/runs/a", "ram://bucket/images.npz"
    tf.io.gfile.makedirs("ram://bucket")
    with tf.io.gfile.GFile(source, "wb") as file:
        file.write(images.read_bytes())
    small = replace(recipe(source, few_shot=False), steps=3)
    with quickly():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RunFolder, "write_log", _full_disk)
            with pytest.raises(OSError, match="full"):
                train(small, out, verbose=0)
        assert run_state.read_facts(f"{out}/state.npz")["position"] == 3
        # What a process that was killed while it wrote leaves.
        with tf.io.gfile.GFile(f"{out}/.0.last.keras", "wb") as file:
            file.write(b"half")
        facts = train(small, out, resume=True, verbose=0)
    assert facts["position"] == 6
    names = {name.rstrip("/") for name in tf.io.gfile.listdir(out)}
    assert names == {
        *("config.json", "log.csv", "tensorboard", "state.npz", "learning_curves.png"),
        *("best.keras", "last.keras", "final.keras", "final.npz", "final.npz.json"),
    }
    with tf.io.gfile.GFile(f"{out}/log.csv") as file:
        assert [row["step"] for row in csv.DictReader(file.read().splitlines())] == ["1", "3"]
    local = images.parent / "from_ram.keras"
    with tf.io.gfile.GFile(f"{out}/final.keras", "rb") as file:
        local.write_bytes(file.read())
    assert keras.saving.load_model(local).spec.class_names == ("0", "1", "2", "3")
    assert train(small, out, resume=True, verbose=0)["history"] == facts["history"]
    with pytest.raises(ValueError, match="holds a run already.*ram://bucket/runs/a"):
        train(small, out, verbose=0)


def _full_disk(self, history):
    raise OSError("The disk is full.")


def test_labels_are_checked_before_anything_is_trained(tmp_path):
    smoke.write_images(tmp_path / "images.npz")
    with np.load(tmp_path / "images.npz") as file:
        parts = dict(file)
    parts["y_train"][3] = -1
    np.savez(tmp_path / "images.npz", **parts)
    with pytest.raises(ValueError, match="Label -1 at index 3"):
        train(recipe(tmp_path / "images.npz"), tmp_path / "run", verbose=0)


def test_a_run_that_cannot_begin_leaves_no_folder_behind(whole, tmp_path):
    source = whole[0].parent / "images.npz"
    with pytest.raises(ValueError, match="batch_size=25"):
        train(replace(recipe(source), batch_size=25), tmp_path / "run", verbose=0)
    assert not (tmp_path / "run" / "config.json").exists()  # which would refuse the mended recipe


def test_images_of_several_classes_need_the_sigmoid(tmp_path):
    rows = ["path,label"]
    pixels = np.zeros((20, 20, 3), "uint8")
    for number, labels in enumerate(["ant|bee", "bee", "ant", "bee"]):
        keras.utils.save_img(tmp_path / f"{number}.png", pixels, scale=False)
        rows.append(f"{number}.png,{labels}")
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    several = recipe(tmp_path / "labels.csv", batch_size=2)
    assert several.objective == "softmax"
    with pytest.raises(ValueError, match="--objective=sigmoid. Received: objective='softmax'"):
        train(several, tmp_path / "run", verbose=0)
    assert not (tmp_path / "run" / "config.json").exists()


def test_a_state_of_another_backend_is_refused(whole, tmp_path):
    folder, _ = whole
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    run_state.save_state(tmp_path / "state.npz", model, {})
    with np.load(tmp_path / "state.npz") as file:
        parts = dict(file)
    with pytest.raises(ValueError, match="of another model or optimizer"):
        run_state.restore_state(folder / "state.npz", model)
    parts[run_state.FACTS] = np.frombuffer(b'{"backend": "abacus"}', "uint8")
    np.savez(tmp_path / "state.npz", **parts)
    with pytest.raises(ValueError, match="KERAS_BACKEND=abacus"):
        run_state.restore_state(tmp_path / "state.npz", model)
