"""Hybrids: a Vision Transformer on the feature map of a ResNet."""

import re

import keras
import numpy as np
import pytest
import reference_resnet
import small_models
from golden_resnets import HYBRID_GOLDENS, load_hybrid
from jit_on_torch import JIT_ON_TORCH, one_graph
from reference_resnet import ORIGINS
from small_models import assert_close, assign
from small_resnets import HYBRID, bit, call, hybrid, outputs_of, random_images, trained

import keras_vit
from keras_vit import VisionTransformer
from keras_vit.models.resnet_stem import hybrid_grid


def golden_model(name):
    spec, weights, golden = load_hybrid(name)
    model = VisionTransformer(**{k: v for k, v in spec.items() if k in small_models.ARGUMENTS})
    assign(model, weights)
    return model, spec, weights, golden


# --- Numbers -----------------------------------------------------------------------------------


@JIT_ON_TORCH
def test_compiled_predictions_are_those_without_a_compiler():
    # Units with and without strides.
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 12, "mlp_dim": 10, "classes": 5}
    model = VisionTransformer(64, 1, **sizes, resnet=(1, 1), resnet_width=0.5)
    images = random_images(model)
    model.compile(run_eagerly=True)
    wanted = model.predict_on_batch(images)
    model.compile(jit_compile=True)
    with one_graph():
        assert_close(model.predict_on_batch(images), wanted)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="others compile for each size")
@pytest.mark.parametrize("build", [hybrid, bit])
def test_the_compiler_learns_the_sizes_that_it_left_open(build):
    # As it leaves them for the second model of a process, if its images are of other sizes.
    import torch

    model, *_ = build()
    images = keras.ops.convert_to_tensor(random_images(model))
    compiled = torch.compile(
        lambda images: model(images, training=False), dynamic=True, fullgraph=True, backend="eager"
    )
    with torch.no_grad():
        assert_close(small_models.numpy(compiled(images)), call(model, images))


@pytest.mark.parametrize("name", HYBRID_GOLDENS)
def test_goldens(name):
    model, _, _, golden = golden_model(name)
    (encoded,) = outputs_of(model, ["norm"], golden["images"])
    assert_close(call(model, golden["images"]), golden["logits"])
    # See test_reference_resnet: this golden has another epsilon than timm's hybrids.
    assert_close(encoded, golden["encoded"], 4e-5 if name == "timm_hybrid" else 2e-5)


@pytest.mark.parametrize("name", ["hybrid_stem", "hybrid_stages"])
def test_goldens_at_another_resolution(name):
    model, _, _, golden = golden_model(name)
    resized = keras_vit.resize(model, golden["resized_images"].shape[1:3])
    table = resized.get_layer("position_embedding").table
    assert_close(small_models.numpy(table), golden["resized_pos_embedding"])
    assert_close(call(resized, golden["resized_images"]), golden["resized_logits"])


@pytest.mark.parametrize("name", ["hybrid_stages", "timm_hybrid"])
def test_stage_by_stage(name):
    model, spec, weights, golden = golden_model(name)
    expected = reference_resnet.hybrid(spec, weights, golden["images"])["stem"]
    assert model.spec.stage_layers == ("stage_1_unit_1", "stage_2_unit_2")
    layers = ["stem_pool", *model.spec.stage_layers]
    computed = outputs_of(model, layers, golden["images"])
    assert len(computed) == len(expected)
    for feature_map, wanted in zip(computed, expected, strict=True):
        assert_close(feature_map, wanted)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"image_size": (40, 33), "resnet": (1, 1, 1, 1), "channels": 1},
        {"image_size": (225, 230), "resnet": (), "patch_size": (19, 29)},
        {"image_size": (7, 9), "pooling": "avg", "class_token": False, "origin": "huggingface"},
        {
            "position_embedding": "relative",
            "resnet": (1,),
            "patch_size": (3, 11),
            "resnet_width": 1,
        },
        {"position_embedding": "learned_2d", "origin": "timm", "include_top": True},
    ],
    ids=["odd", "four_stages", "225x230", "tiny", "relative", "2d"],
)
def test_outputs_equal_the_reference(fields):
    model, spec, weights = hybrid(**fields)
    images = random_images(model)
    assert_close(call(model, images), reference_resnet.hybrid(spec, weights, images)["logits"])


@pytest.mark.parametrize("origin", ORIGINS)
def test_constants_are_the_origins(origin):
    # Nearly flat images and weights that hardly spread show every epsilon.
    model, spec, weights = hybrid(origin=origin, resnet=(1,), patch_size=(3, 11))
    weights = {p: 1e-3 * w if "conv" in p else w for p, w in weights.items()}
    assign(model, weights)
    images = 1e-4 * random_images(model)
    computed = call(model, images)
    assert_close(computed, reference_resnet.hybrid(spec, weights, images)["logits"])
    other = reference_resnet.GOOGLE if origin != "google" else reference_resnet.TIMM
    wrong = reference_resnet.hybrid(spec, weights, images, other)["logits"]
    assert small_models.relative_error(computed, wrong) > 1e-3


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
def test_compiled_and_eager_outputs(compiled, as_users_run_it):
    model, spec, weights = hybrid(resnet=(1,), patch_size=(3, 11))
    images = random_images(model)
    computed = model.predict(images, verbose=0) if compiled else model(images)
    expected = reference_resnet.hybrid(spec, weights, images)["logits"]
    assert_close(keras.ops.convert_to_numpy(computed), expected)


def test_images_stay_channels_last_under_channels_first():
    model, spec, weights = hybrid()
    images = random_images(model)
    before = keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")
    try:
        again, _, _ = hybrid()
        computed = call(again, images)
    finally:
        keras.config.set_image_data_format(before)
    assert_close(computed, call(model, images), 1e-6)


# --- Sizes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resnet", "reduction"),
    [((), 4), ((2,), 4), ((3, 4), 8), ((3, 4, 9), 16), ((3, 4, 6, 3), 32)],
)
def test_the_grid_halves_and_rounds_up(resnet, reduction):
    for height, width in [(1, 2), (reduction, reduction + 1), (224, 225), (230, 383), (1, 384)]:
        rows, columns = height, width
        for _ in range(reduction.bit_length() - 1):
            rows, columns = (rows + 1) // 2, (columns + 1) // 2
        assert hybrid_grid((height, width), (1, 1), resnet) == (rows, columns)


def test_the_spec_knows_its_grid():
    model, _, _ = hybrid(image_size=(225, 230), resnet=(), patch_size=(19, 29))
    assert model.spec.grid == (3, 2)
    assert model.spec.num_tokens == 7
    assert model.get_layer("stem_pool").output.shape == (None, 57, 58, 32)
    assert model.get_layer("position_embedding").table.shape == (1, 7, 24)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"image_size": (224, 225), "resnet": (), "patch_size": 8},
            "width of 57.*nearest widths of the image are 224 and 253",
        ),
        (
            {"image_size": (16, 224), "resnet": (), "patch_size": 8},
            "too small.*height of 4.*smallest height is 29",
        ),
        ({"image_size": (20, 40), "patch_size": (4, 5)}, "too small.*smallest height is 25"),
        ({"resnet": 50}, "tuple with the number of units.*resnet=50"),
        ({"resnet": "R50"}, "tuple with the number of units.*resnet='R50'"),
        ({"resnet": (3, 0)}, "at least 1. Received: resnet=0"),
        ({"resnet": (1,), "resnet_width": 0.75}, "multiple of 0.5.*resnet_width=0.75"),
        ({"resnet": (1,), "resnet_width": None}, "resnet_width=None"),
        ({"resnet": (1,), "resnet_width": -1}, "resnet_width=-1"),
    ],
)
def test_refuses(fields, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        VisionTransformer(**{**HYBRID, **fields})


@pytest.mark.parametrize("patch", [2, 3, 8])
def test_the_sizes_that_an_error_names_are_the_nearest_that_fit(patch):
    fits = [size for size in range(1, 200) if -(-size // 4) % patch == 0]
    for size in set(range(1, 120)) - set(fits):
        with pytest.raises(ValueError) as error:
            hybrid_grid((size, 4 * patch), (patch, patch), ())
        named = [int(number) for number in re.findall(r"\d+", str(error.value).split(".")[-2])]
        below = [fit for fit in fits if fit < size]
        assert named == [*below[-1:], next(fit for fit in fits if fit > size)]


def test_resize_moves_positions_only():
    model, _, _ = hybrid()
    resized = keras_vit.resize(model, (50, 33))
    assert model.spec.grid == (5, 6) and resized.spec.grid == (7, 5)
    before, after = small_models.values(model), small_models.values(resized)
    assert before.pop("position_embedding/table").shape == (1, 31, 24)
    assert after.pop("position_embedding/table").shape == (1, 36, 24)
    small_models.assert_equal(after, before)


def test_resize_within_the_same_grid_changes_nothing():
    model, _, _ = hybrid()
    resized = keras_vit.resize(model, (40, 48))
    assert resized.spec.grid == model.spec.grid
    small_models.assert_equal(small_models.values(resized), small_models.values(model))


def test_resize_refuses_another_patch_size():
    model, _, _ = hybrid()
    with pytest.raises(ValueError, match=r"feature maps.*patch_size=2"):
        keras_vit.resize(model, patch_size=2)


# --- Training ----------------------------------------------------------------------------------


def test_a_fresh_model_starts_as_the_papers():
    model = VisionTransformer(**HYBRID)
    values = small_models.values(model)
    norms = {path: value for path, value in values.items() if path.endswith("/gamma")}
    assert sum("norm3" in path for path in norms) == 3
    for path, gamma in norms.items():
        assert (gamma == ("norm3" not in path)).all(), path
    assert not values["head/kernel"].any()
    kernel = values["stage_2_unit_2/conv2/kernel"]
    assert abs(kernel.std() * np.sqrt(9 * 64) - 1) < 0.02


def test_gradients_reach_every_raw_kernel():
    model, _, _ = hybrid()
    moved = trained(model)
    still = [path for path, (before, after) in moved.items() if np.abs(after - before).max() < 1e-7]
    # A softmax does not see what is added to all of its logits.
    assert still == ["block_0/attention/key/bias"]


def test_freezing_by_stage():
    model, _, _ = hybrid()
    for layer in model.layers:
        layer.trainable = not layer.name.startswith(("stem_", "stage_1_"))
    moved = trained(model)
    for path, (before, after) in moved.items():
        frozen = path.startswith(("stem_", "stage_1_"))
        assert (before == after).all() == frozen or "key/bias" in path, path


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_is_finite_and_near(policy):
    model, spec, weights = hybrid(dtype=policy)
    images = random_images(model)
    images[1] = 1.0  # flat
    assert {v.dtype for v in model.weights} == {"float32"}
    expected = reference_resnet.hybrid(spec, weights, images)["logits"]
    assert_close(call(model, images), expected, 0.1)
    if policy == "mixed_float16":
        trained(model)
        assert all(np.isfinite(value).all() for value in small_models.values(model).values())


# --- As a Keras model --------------------------------------------------------------------------


def test_saved_and_reloaded(tmp_path):
    model, _, _ = hybrid(origin="timm", include_preprocessing=True)
    images = random_images(model)
    model.save(tmp_path / "hybrid.keras")
    loaded = keras.saving.load_model(tmp_path / "hybrid.keras")
    assert loaded.spec == model.spec
    assert loaded.spec.resnet == (1, 2)
    np.testing.assert_array_equal(call(loaded, images), call(model, images))
    copy = type(model).from_config(model.get_config())
    assert copy.spec == model.spec


def test_on_an_input_tensor():
    inputs = keras.Input((17, 41, 3))
    doubled = keras.layers.UpSampling2D((2, 1), data_format="channels_last")(inputs)
    model, _, _ = hybrid(input_tensor=doubled)
    assert model.input_shape == (None, 17, 41, 3)
    with pytest.raises(ValueError, match="`resize` rebuilds the model from its image input"):
        keras_vit.resize(model, (50, 33))


def test_summary_and_names():
    model, _, _ = hybrid()
    names = [layer.name for layer in model.layers]
    assert names[:9] == [
        "images",
        "stem_conv",
        "stem_norm",
        "stem_activation",
        "stem_pool",
        "stage_1_unit_1",
        "stage_2_unit_1",
        "stage_2_unit_2",
        "patch_embedding",
    ]
