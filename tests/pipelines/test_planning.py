"""Memory and multiply-adds of a training step, from sizes alone."""

import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_vit
from pipelines import cli, planning
from pipelines.distribution.spec import Spec, parse

ROOT = pathlib.Path(__file__).parents[2]
JAX = keras.backend.backend() == "jax"

# D 64, M 128, 2 heads, 2 x 3 patches and a class token.
SIZES = {
    "image_size": (8, 12),
    "patch_size": 4,
    "num_layers": 2,
    "num_heads": 2,
    "hidden_dim": 64,
    "mlp_dim": 128,
    "classes": 5,
    "classifier_activation": None,
}


@pytest.fixture(scope="module")
def model():
    return keras_vit.VisionTransformer(**SIZES)


def nbytes(variables):
    return sum(keras.ops.convert_to_numpy(variable).nbytes for variable in variables)


@pytest.mark.parametrize("name", ["AdamW", "SGD"])
def test_parameters_and_optimizer_are_exact_on_one_device(model, name):
    optimizer = {
        "AdamW": lambda: keras_vit.optimizers.AdamW(1e-3),
        "SGD": lambda: keras.optimizers.SGD(1e-2, momentum=0.9),
    }[name]()
    optimizer.build(model.trainable_variables)
    plan = planning.plan(model, optimizer, 6, Spec("off"), 1)
    assert plan.parameters == nbytes(model.variables)
    assert plan.gradients == nbytes(model.trainable_variables)
    assert plan.optimizer == nbytes(optimizer.variables)


@pytest.mark.parametrize(
    ("spec", "split", "parts"),
    [
        # In numbers: what is split, and over how many.
        ("data", 0, 1),
        # Per block: queries, keys, values, outputs and MLP kernels, and the split biases.
        ("model:2x2", 2 * (4 * 64 * 64 + 3 * 64 + 2 * 64 * 128 + 128), 2),
        # Kernels of 4,096 numbers or more; the patches' have 4 * 4 * 3 * 64 = 3,072.
        ("fsdp:4", 2 * (4 * 64 * 64 + 2 * 64 * 128), 4),
    ],
)
def test_layouts_split_what_they_say(model, spec, split, parts):
    numbers = sum(int(np.prod(v.shape)) for v in model.variables)
    optimizer = keras.optimizers.SGD(1e-2, momentum=0.9)
    plan = planning.plan(model, optimizer, 8, parse(spec), 4)
    assert plan.parameters == 4 * (numbers - split + split // parts)
    assert plan.gradients == plan.parameters
    counters = nbytes([v for v in optimizer.variables if not tuple(v.shape)])
    assert plan.optimizer == plan.gradients + counters


def test_multiply_adds_of_a_step(model):
    # By hand: tokens 7, patches 6; three times forward, and blocks once more where recomputed.
    block = 7 * (4 * 64**2 + 2 * 64 * 128) + 2 * 7**2 * 64
    forward = 6 * 4 * 4 * 3 * 64 + 2 * block + 64 * 5
    plan = planning.plan(model, keras.optimizers.SGD(), 12, Spec("data"), 4)
    assert plan.macs == 3 * forward * 12 // 4
    assert plan.rematerialized_macs == (3 * forward + 2 * block) * 12 // 4


def test_activations_by_hand(model):
    block = model.get_layer("block_0")
    # (N, D) twelve times, six of them whole on every device; (N, M) three times, (h, N, N) twice.
    whole, shared = 6 * 7 * 64, 6 * 7 * 64 + 3 * 7 * 128 + 2 * 2 * 49
    assert planning.block_activations(block) == 4 * (whole + shared)
    assert planning.block_activations(block, split=2) == 4 * (whole + shared // 2)


def test_activations_where_one_of_seven_tokens_is_computed(model):
    block = model.get_layer("block_1")
    norms, keys_and_values = 3 * (7 + 1) * 64, 2 * 7 * 64
    queries, hidden, weights = 4 * 1 * 64, 3 * 1 * 128, 2 * 2 * 1 * 7
    kept = 4 * (norms + keys_and_values + queries + hidden + weights)
    assert planning.block_activations(block, num_queries=1) == kept
    # What block_0 keeps, and the more of block_1's and of what block_0 needs while at work.
    whole = planning.block_activations(model.get_layer("block_0"))
    every_token = keras_vit.VisionTransformer(**SIZES, pooling="avg", class_token=True)
    saved = planning.activations(every_token) - planning.activations(model)
    at_work = int(planning.WORKSPACE * whole), kept + int(planning.WORKSPACE * kept)
    assert saved == whole + at_work[0] - max(at_work)


def test_half_the_bytes_in_half_the_bits():
    half = keras_vit.VisionTransformer(**SIZES, dtype="mixed_bfloat16").get_layer("block_0")
    # All but one of the two (h, N, N), which stays float32.
    numbers = 12 * 7 * 64 + 3 * 7 * 128
    assert planning.block_activations(half) == 2 * numbers + (2 + 4) * 2 * 49


def test_rematerialised_blocks_keep_their_inputs():
    model = keras_vit.VisionTransformer(**SIZES, pooling="avg")
    block = planning.block_activations(model.get_layer("block_0"))
    saved = planning.activations(model) - planning.activations(model, rematerialize=True)
    assert saved == 2 * block - (block + 2 * 4 * 6 * 64)


@pytest.mark.parametrize(
    ("batch", "spec", "devices", "message"),
    [
        (6, "data", 4, "The 4 shares of 'data' must divide the batch. Received: batch_size=6"),
        (8, "model:2x2", 8, "must be all there are. Received: spec='model:2x2', devices=8"),
        (8, "model:1x4", 4, "must divide the number of heads.*Sizes that divide: 1, 2"),
        (8, "off", 4, "must be all there are. Received: spec='off', devices=4"),
        (0, "data", 1, "`batch_size` must be an integer of at least 1. Received: batch_size=0"),
        (8, "data", 0, "`devices` must be an integer of at least 1. Received: devices=0"),
    ],
)
def test_what_does_not_divide_is_refused(model, batch, spec, devices, message):
    with pytest.raises(ValueError, match=message):
        planning.plan(model, keras.optimizers.SGD(), batch, parse(spec), devices)


def test_optimizers_with_unequal_slots_are_refused(model):
    optimizer = keras.optimizers.Adafactor()
    optimizer.build(model.trainable_variables)
    with pytest.raises(ValueError, match="equally many slots.*optimizer=adafactor"):
        planning.plan(model, optimizer, 8, Spec("data"), 4)


def test_layouts_to_compare_divide_the_heads(model):
    assert [str(spec) for spec in planning.layouts(model, 8)] == ["data", "fsdp:8", "model:4x2"]


@pytest.mark.skipif(not JAX, reason="XLA's account of memory comes with JAX")
@pytest.mark.parametrize(
    ("pooling", "layers", "size", "heads", "width", "mlp_dim"),
    [("token", 3, 64, 2, 192, 384), ("token", 2, 128, 4, 128, 512), ("avg", 3, 64, 2, 192, 384)],
)
def test_the_estimate_of_activations_beside_that_of_xla(
    pooling, layers, size, heads, width, mlp_dim
):
    model = keras_vit.VisionTransformer(
        image_size=size,
        patch_size=8,
        num_layers=layers,
        num_heads=heads,
        hidden_dim=width,
        mlp_dim=mlp_dim,
        classes=10,
        pooling=pooling,
        classifier_activation=None,
    )
    model.compile(
        keras_vit.optimizers.AdamW(1e-3), keras.losses.SparseCategoricalCrossentropy(True)
    )
    measured = temporary_bytes(model, batch_size=32)
    plan = planning.plan(model, model.optimizer, 32, Spec("off"), 1)
    low, high = planning.ACTIVATION_ERROR
    assert low < (measured - plan.gradients) / plan.activations < high


def temporary_bytes(model, batch_size):
    """What XLA sets aside for one step, besides state and images."""
    import jax

    model.optimizer.build(model.trainable_variables)
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state = tuple([jax.ShapeDtypeStruct(v.shape, v.dtype) for v in group] for group in groups)
    images = jax.ShapeDtypeStruct((batch_size, *model.input_shape[1:]), "float32")
    labels = jax.ShapeDtypeStruct((batch_size,), "int32")
    step = jax.jit(model.train_step, donate_argnums=0).lower(state, (images, labels)).compile()
    return step.memory_analysis().temp_size_in_bytes


def test_the_command_says_why_no_layout_is_possible(model, monkeypatch, capsys):
    monkeypatch.setattr(planning, "model_without_values", lambda *arguments: model)
    assert cli.main(["plan", "ViT_H14", "--batch", "7", "--devices", "4"]) == 2
    assert "must divide the batch. Received: batch_size=7" in capsys.readouterr().err


def command(*arguments):
    """What `keras-vit plan` prints, in a process that does nothing else."""
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "plan", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("name", "parameters"), [("H", 632_045_800), ("G", 1_844_440_680)])
def test_the_command_and_the_page_that_shows_it(name, parameters):
    options = ("--batch", "4096", "--devices", "256", "--device-memory", "16")
    printed = command(f"ViT_{name}14", *options)
    rows = {line.split()[0]: line.split() for line in printed.splitlines()[3:]}
    gib = parameters * 4 / 2**30
    exact = [float(number) for number in rows["data"][1:4]]
    assert exact == pytest.approx([gib, gib, 2 * gib], abs=0.006)
    assert rows["data"][-1] == {"H": "again", "G": "no"}[name]
    page = (ROOT / "docs" / "scaling.md").read_text()
    assert printed.strip() in page
    assert f"keras-vit plan ViT_{name}14 {' '.join(options)}" in page
