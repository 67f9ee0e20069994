"""Parts of a run by themselves: averages in a model, early stopping, class weights, the loss."""

import types

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow")

import small_models as small

import keras_vit
from pipelines.distribution.engine import Engine
from pipelines.recipes import resolve
from pipelines.recipes.config import replace
from pipelines.runs.averages import averaged, not_finalized
from pipelines.runs.building import build, without_padding
from pipelines.runs.callback import RunCallback, Terminated
from pipelines.runs.data import RunData, open_data
from pipelines.sources.arrays import arrays


def trained(use_ema=True):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="head")])
    optimizer = keras_vit.optimizers.SGD(0.1, use_ema=use_ema, ema_momentum=0.5)
    model.compile(optimizer, "mse")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
    with not_finalized(model):
        model.fit(x, y, batch_size=1, shuffle=False, verbose=0)
    return model, x, y


def test_averages_are_in_the_model_for_a_while():
    model, x, y = trained()
    raw = small.values(model)
    averages = {p: small.numpy(v).copy() for p, v in model.optimizer.averages().items()}
    assert any((raw[path] != averages[path]).any() for path in raw)
    with averaged(model):
        small.assert_equal(small.values(model), averages)
        model.evaluate(x, y, verbose=0)  # on JAX it gives the arrays away
    small.assert_equal(small.values(model), raw)
    kept = {p: small.numpy(v) for p, v in model.optimizer.averages().items()}
    small.assert_equal(kept, averages)


def test_the_end_of_fit_leaves_the_weights_only_where_it_is_asked_to():
    model, x, y = trained()
    averages = {p: small.numpy(v).copy() for p, v in model.optimizer.averages().items()}
    assert any((small.values(model)[path] != averages[path]).any() for path in averages)
    model.fit(x[:1], y[:1], verbose=0)  # as Keras does
    averages = {p: small.numpy(v) for p, v in model.optimizer.averages().items()}
    small.assert_equal(small.values(model), averages)


def test_without_averages_the_weights_are_as_they_are():
    model, _, _ = trained(use_ema=False)
    raw = small.values(model)
    with averaged(model):
        small.assert_equal(small.values(model), raw)


class Two(Engine):
    """The first of two processes; `other` answers for the second."""

    hosts = replicas = 2

    def __init__(self, other):
        super().__init__()
        self.other, self.asked = other, 0

    def gather(self, numbers):
        self.asked += 1
        return [list(numbers), self.other(*numbers)]


def callback(patience, engine=None):
    model, _, _ = trained(use_ema=False)
    facts = {"position": 0, "history": [], "best": None, "waited": 0, "stopped": False}
    saved = []
    recipe = types.SimpleNamespace(patience=patience)
    made = RunCallback(
        None, facts, recipe, lambda: saved.append("state"), saved.extend, engine=engine
    )
    made.set_model(model)
    return made, facts, saved


def test_the_best_is_kept_and_patience_ends_the_run():
    made, facts, saved = callback(patience=2)
    for epoch, accuracy in enumerate((0.5, 0.7, 0.6, 0.7), start=1):
        assert not facts["stopped"]
        made._keep_best({"epoch": epoch, "val_accuracy": accuracy, "val_loss": 1.0})
    assert facts["best"] == {"score": 0.7, "epoch": 2, "val_accuracy": 0.7}
    assert facts["stopped"] and made.model.stop_training
    both = ["last.keras", "best.keras"]
    assert saved == [*both, *both, "last.keras", "last.keras"]


def test_without_validation_the_loss_decides():
    made, facts, _ = callback(patience=None)
    for epoch, loss in enumerate((2.0, 1.0, 3.0), start=1):
        made._keep_best({"epoch": epoch, "loss": loss})
    assert facts["best"] == {"score": -1.0, "epoch": 2, "loss": 1.0}
    assert not facts["stopped"]


@pytest.mark.parametrize("loss", [np.nan, np.inf])
def test_a_loss_that_is_no_number_stops_the_run(loss):
    made, facts, _ = callback(patience=None)
    made.folder = types.SimpleNamespace(path="runs/a", state=None)
    facts["position"] = 14
    made.on_train_batch_end(0, {"loss": loss})  # every sixteenth is looked at
    with pytest.raises(ValueError, match=f"batch 16 of the run. Received: loss={loss}.*runs/a"):
        made.on_train_batch_end(1, {"loss": loss})
    with pytest.raises(ValueError, match="no number any more"):
        made.on_epoch_end(0, {"loss": loss})


def test_a_loss_that_is_no_number_anywhere_stops_all():
    made, facts, _ = callback(patience=None, engine=Two(lambda loss: [np.nan]))
    made.folder = types.SimpleNamespace(path="runs/a")
    facts["position"] = 15
    with pytest.raises(ValueError, match="batch 16 of the run. Received: loss=nan"):
        made.on_train_batch_end(0, {"loss": 0.5})


def test_a_signal_to_one_process_stops_all_after_the_same_batch():
    asked_to_stop = [0, 0, 1]
    engine = Two(lambda *mine: [asked_to_stop.pop(0), *mine[1:]])
    made, facts, saved = callback(patience=None, engine=engine)
    made._check_finite = lambda logs: None
    made._asked = (-1e9, 0)  # as if batches took ages: every one is asked about
    for _ in range(2):
        made.on_train_batch_end(0)
        made._asked = (-1e9, facts["position"])
    assert not saved
    with pytest.raises(Terminated):
        made.on_train_batch_end(0)
    assert saved == ["state"] and facts["position"] == 3


def test_processes_with_fast_batches_ask_each_other_seldom():
    engine = Two(lambda *mine: [0, 0, 1])  # its own pace does not count
    made, _, _ = callback(patience=None, engine=engine)
    made._check_finite = lambda logs: None
    for _ in range(64):
        made.on_train_batch_end(0)
    assert engine.asked <= 1 + 64 // 16 + 1


def test_the_chief_s_clock_says_when_to_save():
    engine = Two(lambda stop, due, pace: [0, 1, pace])  # the other's clock runs ahead
    made, _, saved = callback(patience=None, engine=engine)
    made._check_finite = lambda logs: None
    made.on_train_batch_end(0)
    assert not saved
    made._saved -= 601
    made._ask_at = 0
    made.on_train_batch_end(0)
    assert saved == ["state"]


def test_the_chief_s_score_decides_what_is_best():
    made, facts, _ = callback(patience=1, engine=Two(lambda score: [score + 1.0]))
    made._keep_best({"epoch": 1, "val_accuracy": 0.5})
    made.engine.gather = lambda numbers: [[0.4], list(numbers)]  # seen from the second process
    made._keep_best({"epoch": 2, "val_accuracy": 0.6})
    assert facts["best"]["epoch"] == 1 and facts["stopped"]


def test_class_weights_by_hand():
    images = np.zeros((6, 2, 2, 1), "uint8")
    # Three, two and one of six: 6 / (3 * 3), 6 / (3 * 2), 6 / (3 * 1).
    source = arrays(images, np.array([0, 0, 0, 1, 1, 2]))
    weights = RunData(source, None, resolve("folder")).class_weights()
    assert weights == {0: 6 / 9, 1: 1.0, 2: 2.0}
    several = arrays(images, np.eye(6)[:, :2].astype(int))
    with pytest.raises(ValueError, match="one label an image"):
        RunData(several, None, resolve("folder")).class_weights()


def test_the_loss_of_images_takes_the_place_of_that_of_rows():
    logs = {"loss": 1.0, "val_loss": 0.5, "val_loss_of_images": 0.8, "accuracy": 0.1}
    assert without_padding(logs) == {"loss": 1.0, "val_loss": 0.8, "accuracy": 0.1}
    assert logs["val_loss"] == 0.5


def test_a_dev_split_is_held_out_of_the_training_images(tmp_path):
    images = np.zeros((20, 2, 2, 1), "uint8")
    labels = np.arange(20) % 2
    np.savez(tmp_path / "a.npz", x_train=images, y_train=labels, x_val=images[:4], y_val=labels[:4])
    recipe = replace(resolve("folder"), data={"source": str(tmp_path / "a.npz")})
    data = open_data(recipe)
    assert (data.train.count, data.validation.count) == (20, 4)
    data = open_data(replace(recipe, data={"dev": True, "validation": 0.2}))
    assert (data.train.count, data.validation.count) == (16, 4)
    data = open_data(replace(recipe, data={"fraction": 0.5}))
    assert (data.train.count, data.validation.count) == (10, 4)
    data = open_data(replace(recipe, data={"label_smoothing": 0.1}))
    assert data.one_hot and data.augment.label_smoothing == 0.1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"channels": 3}, "has 1 channels.*model.channels=3"),
        ({"arguments": {"pooling": "avg", "classes": 3}}, "model.arguments.pooling='avg'$"),
        ({"arguments": {"nonsense": 7}}, "model.arguments.nonsense=7"),
    ],
)
def test_what_a_file_decides_is_not_the_recipes_to_say(tmp_path, changes, words):
    path = str(tmp_path / "model.keras")
    keras_vit.VisionTransformer((14, 14), 7, 1, 2, 8, 12, classes=3, channels=1).save(path)
    recipe = replace(resolve("fashion_mnist_larger"), model={"weights": path, **changes})
    with pytest.raises(ValueError, match=words):
        build(recipe, ("a", "b", "c"))


def test_sigmoid_is_summed_over_the_classes():
    logits = np.array([[0.0, 2.0, -1.0], [3.0, 0.0, 0.0]], "float32")
    targets = np.array([[1, 0, 1], [0, 1, 0]])
    p = 1 / (1 + np.exp(-logits.astype("float64")))
    wanted = -(targets * np.log(p) + (1 - targets) * np.log(1 - p)).sum(axis=1).mean()
    loss = keras_vit.losses.SigmoidCrossentropy()
    value = loss(keras.ops.convert_to_tensor(targets), keras.ops.convert_to_tensor(logits))
    np.testing.assert_allclose(float(small.numpy(value)), wanted, rtol=1e-6)
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert type(again) is type(loss)


def test_a_hit_is_any_of_an_images_classes():
    metric = keras_vit.metrics.HitAtOne()
    targets = np.array([[1, 1, 0], [0, 0, 1], [0, 0, 0]])
    scores = np.array([[0.1, 0.9, 0.0], [0.5, 0.1, 0.4], [1.0, 0.0, 0.0]], "float32")
    metric.update_state(targets, scores)
    np.testing.assert_allclose(float(small.numpy(metric.result())), 1 / 3, rtol=1e-6)
    metric.update_state(targets[:1], scores[:1], sample_weight=np.array([3.0]))
    np.testing.assert_allclose(float(small.numpy(metric.result())), 4 / 6, rtol=1e-6)
    again = keras.metrics.deserialize(keras.metrics.serialize(metric))
    assert type(again) is type(metric)
