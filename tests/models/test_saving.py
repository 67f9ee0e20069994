"""Saved models, loaded in a fresh process on each backend: they predict, train and decay alike."""

import json
import re

import keras
import numpy as np
import other_processes
import pytest
import small_models as small
from other_processes import BACKENDS
from quick_compilation import quickly
from small_models import assert_close, build, call, expected_output

import keras_vit

# Keras tells of every layer that it leaves in floats.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Layer .* does not have a `quantize` method:UserWarning"
)

LABELS = [3, 0]
LEARNING_RATE, WEIGHT_DECAY = 0.01, 0.5

# Positions of each kind, options of blocks, and layers with random state. Nearly all have the same
# number of tokens, since every process compiles for every number.
SAVED_VARIANTS = [
    "learned_shared",
    "2d_every_layer",
    "relative",
    "timm",
    "sincos_every_layer",
    "rates",
]


def compiled():
    variant = build(num_layers=1, num_registers=2)
    variant.model.compile(
        keras_vit.optimizers.AdamW(
            LEARNING_RATE, weight_decay=WEIGHT_DECAY, global_clipnorm=1.0, beta_2=0.9
        ),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return variant


def quantised():
    fields = {"pooling": "map", "position_embedding": "relative", "num_registers": 2}
    variant = build(num_layers=1, **fields)
    with small.quick_quantisation():
        variant.model.quantize("int8")
    return variant


def with_lora():
    variant = build(num_layers=1, num_registers=2)
    attention = variant.model.get_layer("block_0").attention
    for part in (attention.query, attention.value, attention.output_projection):
        part.enable_lora(2)
    rng = np.random.default_rng(1)
    for variable in variant.model.weights:
        if "lora" in variable.path:
            variable.assign(rng.normal(0, 0.3, variable.shape))
    return variant


class Saved:
    """A folder of saved models, and what this process knows of them."""

    def __init__(self, folder):
        self.folder, self.predictions, self.specs = folder, {}, {}

    def add(self, name, small_model, suffix=".keras"):
        model, images = small_model.model, small_model.images
        self.predictions[name] = call(model, images)
        self.specs[name] = model.spec.to_dict()
        np.save(self.folder / f"{name}.npy", images)
        if suffix == ".keras":
            model.save(self.folder / f"{name}.keras")
        else:
            model.save_weights(self.folder / f"{name}.weights.h5")

    def write(self, name, value):
        (self.folder / name).write_text(json.dumps(value))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Models saved by this process; the one that was trained has gone a step further since."""
    with quickly():
        return save_all(Saved(tmp_path_factory.mktemp("saved")))


def save_all(saved):
    for name in SAVED_VARIANTS:
        saved.add(name, small.variant(name))
    saved.add("quantised", quantised())
    saved.add("lora", with_lora())
    saved.add("weights", small.variant("learned_shared"), ".weights.h5")
    spec = small.variant("learned_shared").model.spec.to_dict()
    saved.write("weights.arguments", {k: v for k, v in spec.items() if k in small.ARGUMENTS})
    saved.write("labels", LABELS)

    untrained = compiled()
    untrained.model.optimizer.build(untrained.model.trainable_variables)
    saved.add("untrained", untrained)
    saved.untrained = small.values(untrained.model)

    trained = compiled()
    trained.model.fit(trained.images, np.array(LABELS), epochs=2, verbose=0)
    saved.add("trained", trained)
    saved.trained = small.values(trained.model)
    history = trained.model.fit(trained.images, np.array(LABELS), verbose=0).history
    saved.loss, saved.trained_on = history["loss"][0], small.values(trained.model)
    return saved


@pytest.fixture(scope="module")
def processes(saved):
    """One process for each backend, all at once."""
    script = other_processes.ROOT / "tests" / "models" / "reload.py"
    processes = {
        backend: other_processes.start(script, saved.folder, backend=backend)
        for backend in BACKENDS
        if other_processes.installed(backend)
    }
    yield processes
    for process in processes.values():
        process.kill()
        process.communicate()


class Reloaded:
    """What one process made of the saved models."""

    def __init__(self, folder, backend):
        self.folder, self.backend = folder, backend
        self.facts = json.loads((folder / f"{backend}.json").read_text())

    def array(self, name):
        return np.load(self.folder / f"{self.backend}.{name}.npy")

    def arrays(self, name):
        with np.load(self.folder / f"{self.backend}.{name}.npz") as file:
            return dict(file)


@pytest.fixture(scope="module", params=BACKENDS)
def reloaded(request, saved, processes):
    if request.param not in processes:
        pytest.skip(f"{request.param} is not installed")
    other_processes.finish(processes[request.param])
    return Reloaded(saved.folder, request.param)


@pytest.mark.parametrize(
    "name", [*SAVED_VARIANTS, "quantised", "lora", "weights", "trained", "untrained"]
)
def test_predictions_are_the_same(saved, reloaded, name):
    assert np.isfinite(saved.predictions[name]).all()
    assert_close(reloaded.array(name), saved.predictions[name], 1e-5)
    assert reloaded.facts["types"][name] == "ImageModel"


def test_specs_are_the_same(saved, reloaded):
    assert reloaded.facts["specs"] == json.loads(json.dumps(saved.specs))


def test_the_next_step_is_the_one_that_would_have_followed(saved, reloaded):
    assert reloaded.facts["loss"] == pytest.approx(saved.loss, rel=1e-4)
    actual = reloaded.arrays("trained_on")
    for path, wanted in saved.trained_on.items():
        # The gradient of a bias of keys is nothing but rounding, which Adam makes large.
        if not path.endswith("/key/bias"):
            step = np.abs(wanted - saved.trained[path]).max()
            assert np.abs(actual[path] - wanted).max() < 0.01 * step, path


def test_kernels_and_nothing_else_decay_after_loading(saved, reloaded):
    decayed = reloaded.arrays("decayed")
    for path, before in saved.untrained.items():
        if re.search("/kernel$", path):
            wanted = before * (1 - LEARNING_RATE * WEIGHT_DECAY)
            np.testing.assert_allclose(decayed[path], wanted, rtol=1e-6, err_msg=path)
        else:
            np.testing.assert_array_equal(decayed[path], before, err_msg=path)


def test_the_optimizer_keeps_its_settings(reloaded):
    config = reloaded.facts["optimizer"]
    assert config["weight_decay"] == WEIGHT_DECAY
    assert config["global_clipnorm"] == 1.0
    assert config["beta_2"] == pytest.approx(0.9)
    assert config["learning_rate"] == pytest.approx(LEARNING_RATE)
    assert config["decay"] == ["/kernel$"]


def test_steps_are_compiled_where_the_backend_compiles(reloaded):
    loaded, fresh = reloaded.facts["jit_compile"]
    assert loaded == fresh


def test_without_the_library_the_error_names_it(reloaded):
    assert "keras_vit" in reloaded.facts["without_the_library"]


# --- In this process ---------------------------------------------------------------------------


def test_a_quantised_model_is_close_and_stays_quantised(tmp_path):
    variant = quantised()
    outputs = call(variant.model, variant.images)
    assert small.relative_error(outputs, expected_output(variant)) < 0.1
    variant.model.save(tmp_path / "model.keras")
    with small.quick_quantisation():
        loaded = keras.saving.load_model(tmp_path / "model.keras")
        loaded.save(tmp_path / "again.keras")
        again = keras.saving.load_model(tmp_path / "again.keras")
    kernels = [v for v in again.weights if v.path.endswith("kernel") and "patch" not in v.path]
    assert len(kernels) == 6 + 6 + 1  # block, map pooling, head
    assert {variable.dtype for variable in kernels} == {"int8"}
    np.testing.assert_array_equal(call(again, variant.images), outputs)


def test_a_choice_that_is_not_the_backends_own_is_kept():
    model = type(small.variant("plain").model).from_config(
        small.variant("plain").model.get_config()
    )
    model.compile("sgd", "mse")
    automatic = model.jit_compile
    assert model.get_compile_config()["jit_compile"] == "auto"
    model.compile("sgd", "mse", jit_compile=not automatic)
    assert model.get_compile_config()["jit_compile"] is not automatic


def test_lora_trains_its_own_weights_only():
    variant = with_lora()
    trainable = {v.path for v in variant.model.trainable_variables}
    for part in ("query", "value", "output"):
        assert f"block_0/attention/{part}/kernel" not in trainable
        assert f"block_0/attention/{part}/lora_kernel_a" in trainable
    assert "block_0/attention/key/kernel" in trainable
