"""Masked patch prediction: predictions and loss against NumPy, training, pictures and files."""

import json
import math
import re

import keras
import numpy as np
import other_processes
import pytest
import small_models as small
from other_processes import BACKENDS
from patches_by_loops import by_loops, cell, color_class
from quick_compilation import quickly
from reference_vit import forward
from small_models import assert_close, build, numpy

import keras_vit
from keras_vit import MaskedPatchPrediction
from keras_vit.models.masked_patch_corruption import (
    EXCHANGED,
    MASKED,
    VISIBLE,
)

PATCHES = 15  # of the small model: 3 rows, 5 columns
CORRUPTED = 8  # half of them, rounded


def pretraining(fields=None, **arguments):
    """A small model with random weights, its prediction layer too, and images for it."""
    given = build(**(fields or {}))
    model = MaskedPatchPrediction(given.model, **{"seed": 1, **arguments})
    rng = np.random.default_rng(2)
    for variable in model.prediction.weights:
        variable.assign(rng.normal(0, 0.3, variable.shape))
    return model, given


def images(number, channels=3, seed=5):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (number, 24, 40, channels)).astype("float32")


# --- Predictions and loss ----------------------------------------------------------------------


def cross_entropy(logits, classes):
    logits = logits - logits.max(axis=-1, keepdims=True)
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return -np.take_along_axis(log_probabilities, classes[..., None], axis=-1)[..., 0]


def loss_of(model, x, y_pred, sample_weight=None):
    return float(numpy(model.compute_loss(x=x, y_pred=y_pred, sample_weight=sample_weight)))


def outputs(model, inputs):
    return {name: numpy(value) for name, value in model(inputs, training=False).items()}


@pytest.mark.parametrize("fields", [{}, {"num_registers": 2}, {"norm_after_pool": True}])
@pytest.mark.parametrize("masked", [False, True])
def test_predictions_are_those_of_the_reference(masked, fields):
    """Of patches that all stay, or of patches that are all the mask token."""
    shares = {"mask_share": float(masked), "random_share": 0.0, "mask_ratio": 1.0}
    model, given = pretraining(fields, **shares)
    weights = dict(given.weights)
    if masked:  # the embedding of every patch is the bias
        weights["patch_embedding/kernel"] = np.zeros_like(weights["patch_embedding/kernel"])
        weights["patch_embedding/bias"] = numpy(model.corruption.mask_token)[0, 0]
    spec = {**given.spec, "include_top": False, "pooling": None, "norm_after_pool": False}
    tokens = forward(spec, weights, given.images)["encoded"][:, -PATCHES:]
    kernel, bias = (numpy(v).astype("float64") for v in model.prediction.weights)
    result = outputs(model, given.images)
    wanted = np.take_along_axis(tokens @ kernel + bias, result["indices"][..., None], axis=1)
    assert result["predictions"].shape == (2, PATCHES, 512)
    assert_close(result["predictions"], wanted)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ["mean_color", "downsampled"])
def test_loss_and_accuracy_of_colors(name, channels):
    model, _ = pretraining({"channels": channels}, target=name)
    x, side = images(4, channels), 1 if name == "mean_color" else 4
    model.compile("sgd")
    loss, accuracy = model.evaluate(x, batch_size=4, verbose=0)

    result = outputs(model, x)
    assert result["predictions"].shape == (
        (4, CORRUPTED, 8**channels) if side == 1 else (4, CORRUPTED, 16, 8**channels)
    )
    places = [(row, column) for row in range(side) for column in range(side)]
    pixels = (x + 1) * 127.5
    classes = by_loops(
        pixels, (8, 8), lambda patch: [color_class(cell(patch, *place, side)) for place in places]
    )
    chosen = np.take_along_axis(np.array(classes), result["indices"][..., None], axis=1)
    logits = result["predictions"].reshape(4, CORRUPTED, side**2, -1).astype("float64")
    assert loss == pytest.approx(cross_entropy(logits, chosen).mean(), rel=1e-5)
    assert accuracy == pytest.approx((logits.argmax(axis=-1) == chosen).mean(), abs=1e-6)


def test_loss_of_pixels():
    model, _ = pretraining(target="pixels")
    x = images(4)
    model.compile("sgd")
    loss = model.evaluate(x, batch_size=4, verbose=0)
    result = outputs(model, x)
    assert result["predictions"].shape == (4, CORRUPTED, 8, 8, 3)
    patches = np.array(by_loops(x, (8, 8), lambda patch: patch))
    errors = [
        (result["predictions"][sample] - patches[sample][result["indices"][sample]]) ** 2
        for sample in range(4)
    ]
    assert loss == pytest.approx(np.mean(errors), rel=1e-5)


@pytest.mark.parametrize("name", ["mean_color", "downsampled", "pixels"])
def test_only_corrupted_patches_count(name):
    model, _ = pretraining(target=name)
    x = images(2)
    y_pred = model(x, training=False)
    before = loss_of(model, x, y_pred)
    corrupted = set(numpy(y_pred["indices"])[1])
    for number in range(PATCHES):
        row, column = divmod(number, 5)
        changed = x.copy()
        changed[1, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] *= -1
        changed[1, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] += 0.6
        after = loss_of(model, changed, y_pred)
        assert (after != before) == (number in corrupted)


def test_sample_weights_count():
    model, _ = pretraining()
    x = images(4)
    model.compile("sgd")
    weights = np.array([0.0, 2.0, 0.0, 0.5], "float32")
    weighted = model.evaluate(x, np.zeros(4), sample_weight=weights, batch_size=4, verbose=0)[0]
    y_pred = model(x, training=False)
    single = [
        loss_of(model, x, y_pred, np.eye(4, dtype="float32")[i])
        for i in range(4)  # a fourth of each sample's mean
    ]
    assert weighted == pytest.approx(weights @ np.array(single), rel=1e-5)


# --- Training ----------------------------------------------------------------------------------


def new_pretraining(fields=None, **arguments):
    """As a user has it: nothing but the encoder is random."""
    given = build(**{"num_layers": 1, **(fields or {})})
    return MaskedPatchPrediction(given.model, **{"seed": 1, **arguments}), given


def test_it_learns_in_compiled_steps_and_everything_moves():
    model, given = new_pretraining()
    head = numpy(given.model.get_layer("head").kernel).copy()
    x = np.repeat(images(4, seed=0)[:, :1, :1], 24, axis=1).repeat(40, axis=2)  # one colour each
    compiled = keras.backend.backend() != "torch"  # there it needs a C++ compiler
    model.compile(keras_vit.optimizers.AdamW(0.01), jit_compile=compiled)
    before = {v.path: numpy(v).copy() for v in model.trainable_variables}
    losses = model.fit(x, epochs=40, batch_size=4, verbose=0).history["loss"]
    assert losses[0] == pytest.approx(math.log(512), rel=1e-5)  # a new prediction layer is zero
    assert losses[-1] < 0.5 * losses[0]
    assert model.evaluate(x, batch_size=4, verbose=0)[1] > 0.5
    for variable in model.trainable_variables:
        if not variable.path.endswith("/key/bias"):  # on which the softmax does not depend
            assert np.abs(numpy(variable) - before[variable.path]).max() > 1e-3, variable.path
    # The model that was given is trained, and its head is left alone.
    kernel = given.model.get_layer("block_0").mlp.weights[0]
    assert (numpy(kernel) != before[kernel.path]).any()
    np.testing.assert_array_equal(numpy(given.model.get_layer("head").kernel), head)


def test_evaluating_twice_gives_the_same_number_and_labels_are_ignored():
    model, _ = pretraining()
    x = images(6)
    model.compile("sgd")
    first = model.evaluate(x, batch_size=4, verbose=0)
    model.fit(x, np.zeros(6), batch_size=4, verbose=0)
    model.prediction.kernel.assign(model.prediction.kernel * 0)
    model.prediction.bias.assign(model.prediction.bias * 0)
    again = model.evaluate(x, np.ones(6), batch_size=4, verbose=0)
    assert first[0] != again[0]
    assert again == model.evaluate(x, batch_size=4, verbose=0)


def test_data_of_tensorflow_with_labels_and_without():
    tf = pytest.importorskip("tensorflow")
    model, _ = new_pretraining()
    model.compile("sgd")
    x = images(4)
    batches = tf.data.Dataset.from_tensor_slices(x).batch(2)
    pairs = tf.data.Dataset.from_tensor_slices((x, np.arange(4))).batch(2)
    losses = [model.evaluate(data, verbose=0)[0] for data in (batches, pairs)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    model.fit(pairs, verbose=0)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(policy):
    model, _ = new_pretraining({"dtype": policy})
    model.compile(keras_vit.optimizers.AdamW(1e-3))
    history = model.fit(images(4), batch_size=2, verbose=0).history
    assert history["loss"][0] == pytest.approx(math.log(512), abs=0.3)
    assert {keras.backend.standardize_dtype(v.dtype) for v in model.trainable_variables} == {
        "float32"
    }
    predictions = model(images(2), training=False)["predictions"]
    assert keras.backend.standardize_dtype(predictions.dtype) == "float32"
    scaled = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scaled == (policy == "mixed_float16")


def test_images_that_do_not_fit_are_refused_and_nothing_is_lost():
    model, _ = new_pretraining()
    model.compile("sgd")
    before = small.values(model)
    with pytest.raises(ValueError, match=r"\(batch, 24, 40, 3\).*Received: shape="):
        model.fit(np.zeros((2, 40, 24, 3), "float32"), verbose=0)
    small.assert_equal(small.values(model), before)


def hybrid(image_size):
    """Its ResNet makes an eighth of the image, its patches are single cells of that."""
    sizes = {"patch_size": 1, "num_layers": 1, "num_heads": 1, "hidden_dim": 8, "mlp_dim": 8}
    return keras_vit.VisionTransformer(image_size, **sizes, resnet=(1, 1), resnet_width=0.5)


def test_hybrids_predict_patches_of_the_image():
    model = MaskedPatchPrediction(hybrid((24, 40)), target="pixels")
    result = outputs(model, images(2))
    assert result["predictions"].shape == (2, CORRUPTED, 8, 8, 3)


# --- What is refused ---------------------------------------------------------------------------


def error_of(fields=None, model=None, **arguments):
    given = model or build(num_layers=1, **(fields or {})).model
    with pytest.raises(ValueError) as error:
        MaskedPatchPrediction(given, **arguments)
    return str(error.value)


@pytest.mark.parametrize("value", [0, 0.0, -0.1, 1.01, float("nan"), True, "half", None])
def test_ratios_that_are_none(value):
    error = error_of(mask_ratio=value)
    assert "`mask_ratio`" in error and f"Received: mask_ratio={value!r}" in error


def test_a_ratio_of_less_than_a_patch():
    error = error_of(mask_ratio=0.02)
    assert "at least one patch" in error and "smallest ratio is 0.067" in error


@pytest.mark.parametrize(
    ("shares", "named"),
    [
        ({"mask_share": 1.2}, "mask_share=1.2"),
        ({"random_share": -0.1}, "random_share=-0.1"),
        ({"mask_share": "most"}, "mask_share='most'"),
        ({"mask_share": 0.8, "random_share": 0.3}, "random_share=0.3"),
        ({"mask_share": 0.95}, "mask_share=0.95, random_share=0.1"),
    ],
)
def test_shares_that_are_none(shares, named):
    assert f"Received: {named}" in error_of(**shares).replace("mask_share=0.8, ", "")


def test_targets_that_cannot_be():
    assert "'mean_color', 'downsampled', 'pixels'" in error_of(target="colour")
    for name in ("mean_color", "downsampled"):
        assert "channels=5" in error_of({"channels": 5}, target=name)
    small_patches = {"patch_size": (2, 8), "image_size": (4, 16)}
    assert "patches of 2 x 8" in error_of(small_patches, target="downsampled")
    build_with = {"channels": 5, **small_patches}
    assert MaskedPatchPrediction(build(num_layers=1, **build_with).model, target="pixels")


def test_models_that_cannot_be():
    inputs = keras.Input((24, 40, 3))
    assert "no spec" in error_of(model=keras.Model(inputs, inputs))
    doubled = keras.layers.Rescaling(2.0)(inputs)
    assert "layers before it" in error_of({"input_tensor": doubled})
    error = error_of(model=hybrid((22, 40)))
    assert "patches of 8 x 8" in error and "(24, 40)" in error


def test_patches_that_are_dropped_cannot_be_predicted():
    assert "patch_dropout_rate=0.5" in error_of({"patch_dropout_rate": 0.5})


def test_a_loss_and_metrics_of_the_users():
    model, _ = new_pretraining()
    for argument in ({"loss": "mse"}, {"metrics": ["accuracy"]}):
        with pytest.raises(ValueError, match="its own loss and metrics"):
            model.compile("sgd", **argument)


# --- The trained encoder -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "pooling"),
    [
        ({"representation_size": 7}, "token"),
        ({"include_top": False, "pooling": None, "class_token": False}, "avg"),
        ({"include_top": False, "pooling": None, "class_token": True}, "token"),
        ({"pooling": "map", "norm_after_pool": True, "num_registers": 1}, "map"),
    ],
)
def test_the_classifier_has_the_encoder_and_a_zero_head(fields, pooling):
    model, given = pretraining(fields)
    model.encoder.get_layer("block_1").trainable = False
    classifier = model.to_classifier(11)
    assert type(classifier) is keras_vit.ImageModel
    assert classifier.spec.pooling == pooling
    assert classifier.spec.norm_after_pool == given.model.spec.norm_after_pool
    assert (classifier.spec.classes, classifier.spec.class_names) == (11, None)
    weights = small.values(classifier)
    for path, value in small.values(model.encoder).items():
        np.testing.assert_array_equal(weights[path], value)
    assert not weights["head/kernel"].any() and not weights["head/bias"].any()
    assert not classifier.get_layer("block_1").trainable
    assert classifier.get_layer("block_0").trainable and classifier.get_layer("head").trainable
    assert small.call(classifier, given.images).shape == (2, 11)


def test_the_classifier_is_a_model_of_its_own():
    model, given = new_pretraining()
    classifier = model.to_classifier(3, pooling="avg", classifier_activation=None, name="mine")
    assert (classifier.name, classifier.spec.classifier_activation) == ("mine", None)
    before, start = small.values(model), small.values(classifier)
    path = "block_0/mlp/hidden/kernel"
    classifier.compile(keras.optimizers.SGD(0.5), "mse")
    classifier.fit(given.images, np.eye(3)[:2], epochs=2, verbose=0)
    assert (small.values(classifier)[path] != start[path]).any()
    small.assert_equal(small.values(model), before)


def test_classifiers_that_cannot_be():
    model, _ = new_pretraining({"pooling": "avg", "class_token": False})
    with pytest.raises(ValueError, match="class token needs one"):
        model.to_classifier(3, pooling="token")
    with pytest.raises(ValueError, match="`classes`"):
        model.to_classifier(0)
    model.encoder.get_layer("block_0").attention.query.enable_lora(2)
    with pytest.raises(ValueError, match="LoRA.*lora_kernel_a"):
        model.to_classifier(3)


# --- Pictures ----------------------------------------------------------------------------------


def test_pictures_of_a_planted_prediction():
    """The prediction layer says (3, 0, 7) of every patch, whatever it is given."""
    model, _ = new_pretraining(mask_share=0.5, random_share=0.3)
    model.prediction.bias.assign(np.eye(512)[3 * 64 + 7])
    x = images(5)
    result = model.reconstruct(x, batch_size=3)
    np.testing.assert_allclose(result.images, (x + 1) / 2, atol=1e-6)
    assert result.kinds.shape == (5, 3, 5)
    batch = result.images[:3]  # patches are exchanged within a batch
    patches = {patch.tobytes() for image in by_loops(batch, (8, 8), np.copy) for patch in image}
    for sample, row, column in np.ndindex(3, 3, 5):
        area = np.s_[sample, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8]
        kind = result.kinds[sample, row, column]
        wanted = result.images[area]
        if kind != VISIBLE:
            wanted = np.broadcast_to(np.array([3.5, 0.5, 7.5]) / 8, (8, 8, 3))
        np.testing.assert_allclose(result.predicted[area], wanted, atol=1e-6)
        if kind == MASKED:
            assert (result.corrupted[area] == 0.5).all()
        elif kind == EXCHANGED:
            assert result.corrupted[area].tobytes() in patches
            assert (result.corrupted[area] != result.images[area]).any()
        else:
            np.testing.assert_array_equal(result.corrupted[area], result.images[area])


def test_pictures_of_downsampled_patches_and_of_pixels():
    model, _ = new_pretraining(target="downsampled", mask_ratio=1.0)
    logits = np.zeros((4, 4, 512))
    logits[1, 2, 511] = 1.0  # row 1, column 2 is white, everything else the darkest
    model.prediction.bias.assign(logits.ravel())
    patch = model.reconstruct(images(1)).predicted[0, 8:16, 16:24]
    wanted = np.full((8, 8, 3), 0.5 / 8)
    wanted[2:4, 4:6] = 7.5 / 8
    np.testing.assert_allclose(patch, wanted, atol=1e-6)

    model, _ = new_pretraining(target="pixels", mask_ratio=1.0)
    pixels = np.random.default_rng(0).uniform(-1, 1, (8, 8, 3)).astype("float32")
    model.prediction.bias.assign(pixels.ravel())
    patch = model.reconstruct(images(1)).predicted[0, 16:24, 32:40]
    np.testing.assert_allclose(patch, (pixels + 1) / 2, atol=1e-6)


def test_pictures_of_no_images_and_batches_of_none():
    model, _ = new_pretraining()
    with pytest.raises(ValueError, match="There must be images"):
        model.reconstruct(images(0))
    with pytest.raises(ValueError, match="`batch_size`.*Received: batch_size=0"):
        model.reconstruct(images(1), batch_size=0)


def test_the_guide_runs(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    guide = (other_processes.ROOT / "docs" / "masked_patches.md").read_text()
    blocks = re.findall("```python\n(.*?)```", guide, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks:
        exec(block, names)
    assert len(blocks) == 2
    assert names["classifier"].output_shape == (None, 10)
    assert (tmp_path / "masked_patches.png").exists()


# --- Files -------------------------------------------------------------------------------------


def test_training_goes_on_from_a_file_as_if_never_interrupted(tmp_path):
    model, _ = new_pretraining(mask_ratio=0.4, mask_share=0.6, random_share=0.3, target="pixels")
    x = images(4)
    model.compile(keras_vit.optimizers.AdamW(0.01))
    model.fit(x, batch_size=2, verbose=0)
    model.save(tmp_path / "pretraining.keras")
    loaded = keras.saving.load_model(tmp_path / "pretraining.keras")
    assert json.dumps(loaded.get_config()) == json.dumps(model.get_config())
    small.assert_equal(small.values(loaded), small.values(model))
    losses = [
        each.fit(x, batch_size=2, verbose=0, shuffle=False).history["loss"]
        for each in (model, loaded)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    small.assert_equal(small.values(loaded.encoder), small.values(model.encoder))


def test_what_is_frozen_stays_frozen_in_a_file(tmp_path):
    model, _ = new_pretraining()
    keras_vit.freeze(model.encoder, keep="norm")
    trained = [variable.path for variable in model.trainable_variables]
    assert [path.split("/")[-2] for path in trained] == 2 * ["norm"] + ["corruption"] + 2 * [
        "prediction"
    ]
    model.save(tmp_path / "pretraining.keras")
    loaded = keras.saving.load_model(tmp_path / "pretraining.keras")
    assert [variable.path for variable in loaded.trainable_variables] == trained


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model saved in training, whose corruption is the same on all backends: all stays."""
    folder = tmp_path_factory.mktemp("pretraining")
    with quickly():
        model, _ = new_pretraining(mask_ratio=1.0, mask_share=0.0, random_share=0.0)
        model.compile(keras_vit.optimizers.AdamW(0.01, weight_decay=0.1))
        x = images(2)
        np.save(folder / "images.npy", x)
        model.fit(x, epochs=2, verbose=0)
        model.save(folder / "pretraining.keras")
        facts = {"type": "MaskedPatchPrediction", "is_ours": True, "steps": 2}
        facts["evaluated"] = model.evaluate(x, verbose=0)
        before = {v.path: numpy(v).copy() for v in model.trainable_variables}
        history = model.fit(x, verbose=0, shuffle=False).history
        facts["trained"] = [history["loss"][0], history["accuracy"][0]]
        after = {v.path: numpy(v).copy() for v in model.trainable_variables}
    return folder, facts, before, after


@pytest.fixture(scope="module")
def processes(saved):
    script = other_processes.ROOT / "tests" / "models" / "reload_pretraining.py"
    started = {
        backend: other_processes.start(script, saved[0], backend=backend)
        for backend in BACKENDS
        if other_processes.installed(backend)
    }
    yield started
    for process in started.values():
        process.kill()
        process.communicate()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_fresh_process_of_any_backend_takes_the_next_step(saved, processes, backend):
    if backend not in processes:
        pytest.skip(f"{backend} is not installed")
    other_processes.finish(processes[backend])
    folder, wanted, before, after = saved
    facts = json.loads((folder / f"{backend}.json").read_text())
    for name in ("evaluated", "trained"):
        assert facts.pop(name) == pytest.approx(wanted[name], rel=1e-4)
    assert facts == {name: wanted[name] for name in facts}
    with np.load(folder / f"{backend}.npz") as values:
        for path, value in after.items():
            # The gradient of a bias of keys is nothing but rounding, which Adam makes large.
            if not path.endswith("/key/bias"):
                step = np.abs(value - before[path]).max()
                assert np.abs(values[path] - value).max() <= 0.02 * step, path
