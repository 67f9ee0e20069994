"""The change of resolution, against interpolation written here with `numpy.interp`."""

import keras
import numpy as np
import pytest
import small_models as small
from golden_weights import load_golden, read_config
from reference_vit import forward, position_layers, random_images
from small_models import assert_close, build, call, expected_output

import keras_vit

LABELS = np.array([3, 0])


# --- Independent interpolation -----------------------------------------------------------------


def by_interp(values, places, axis=0):
    """Linear interpolation at fractional places along one axis, the border repeated."""
    values = np.moveaxis(np.asarray(values, np.float64), axis, 0)
    flat = values.reshape(len(values), -1)
    sampled = [np.interp(places, np.arange(len(values)), column) for column in flat.T]
    return np.moveaxis(np.stack(sampled, -1).reshape(-1, *values.shape[1:]), 0, axis)


def corners_aligned(values, sizes):
    """(rows, columns, ...) -> (*sizes, ...), the four corners staying where they are."""
    for axis, size in enumerate(sizes):
        values = by_interp(values, np.linspace(0, values.shape[axis] - 1, size), axis)
    return values


def offsets_aligned(table, old_grid, new_grid):
    """(2 gh - 1, 2 gw - 1, d): offset 0 stays, the largest offset becomes the largest."""
    for axis, (old, new) in enumerate(zip(old_grid, new_grid, strict=True)):
        offsets = np.arange(1 - new, new) * (old - 1) / (new - 1)
        table = by_interp(table, offsets + old - 1, axis)
    return table


def resampled(spec, weights, new_grid):
    """The weights for another grid, where every position is interpolated linearly."""
    rows, columns = (side // 8 for side in spec["image_size"])
    kind = spec["position_embedding"]
    new = dict(weights)
    for layer in set(filter(None, position_layers(spec))):
        if kind == "learned":
            table = weights[f"{layer}/table"]
            prefix = table[:, : -rows * columns]
            grid = table[0, -rows * columns :].reshape(rows, columns, -1)
            grid = corners_aligned(grid, new_grid).reshape(1, -1, table.shape[-1])
            new[f"{layer}/table"] = np.concatenate([prefix, grid], axis=1)
        elif kind == "learned_2d":
            new[f"{layer}/rows"] = corners_aligned(weights[f"{layer}/rows"], new_grid[:1])
            new[f"{layer}/columns"] = corners_aligned(weights[f"{layer}/columns"], new_grid[1:])
    for path in weights:
        if path.endswith("relative_position/table"):
            new[path] = offsets_aligned(weights[path], (rows, columns), new_grid)
    return new


def assert_resampled(model, spec, weights, new_grid):
    """Positions are as interpolated here; their prefix and all else are copied bit for bit."""
    actual, wanted = small.values(model), resampled(spec, weights, new_grid)
    assert actual.keys() == wanted.keys()
    for path, value in wanted.items():
        if value is weights[path]:
            np.testing.assert_array_equal(actual[path], value, err_msg=path)
        else:
            assert actual[path].dtype == weights[path].dtype
            np.testing.assert_allclose(actual[path], value, atol=1e-6, err_msg=path)
            prefix = actual[path].shape[1] - new_grid[0] * new_grid[1]
            if path.endswith("embedding/table") and prefix:
                np.testing.assert_array_equal(
                    actual[path][:, :prefix], weights[path][:, :prefix], err_msg=path
                )


# --- Positions ---------------------------------------------------------------------------------

KINDS = [
    "plain",
    "learned_every_layer",
    "learned_shared",
    "grid_only_positions",
    "2d",
    "2d_every_layer",
    "2d_shared_tokens",
    "sincos",
    "relative",
    "relative_patches",
    "huggingface",
]


# The sides change places: as many patches as before, and not one where it was.
@pytest.mark.parametrize("name", KINDS)
def test_a_grid_of_the_same_number_of_patches_is_resampled(name):
    variant = small.variant(name)
    image_size = variant.spec["image_size"][::-1]
    grid = (image_size[0] // 8, image_size[1] // 8)
    model = keras_vit.resize(variant.model, image_size=image_size, interpolation="bilinear")
    assert (model.spec.image_size, model.spec.grid) == (image_size, grid)
    assert_resampled(model, variant.spec, variant.weights, grid)
    # And the model works on that grid.
    spec = {**variant.spec, "image_size": image_size}
    swapped = variant._replace(spec=spec, weights=small.values(model))
    images = random_images(spec, seed=5)
    assert_close(call(model, images), expected_output(swapped, images))


@pytest.mark.parametrize("size", [(32, 40), (24, 64), (16, 56), (48, 24)], ids=str)
@pytest.mark.parametrize("name", ["plain", "learned_shared", "2d_shared_tokens", "relative"])
def test_rows_stay_rows_and_columns_columns(name, size):
    variant = small.variant(name)
    model = keras_vit.resize(variant.model, image_size=size)
    assert_resampled(model, variant.spec, variant.weights, (size[0] // 8, size[1] // 8))


@pytest.mark.parametrize("name", ["plain", "2d_every_layer", "relative", "timm", "sincos"])
def test_the_same_size_is_an_exact_copy(name):
    variant = small.variant(name)
    for sizes in ({"image_size": variant.spec["image_size"]}, {"patch_size": 8}):
        model = keras_vit.resize(variant.model, **sizes)
        assert model is not variant.model
        assert model.spec == variant.model.spec
        small.assert_equal(small.values(model), variant.weights)


def through_file(model, folder):
    model.save(folder / "model.keras")
    return keras.saving.load_model(folder / "model.keras")


def test_a_rectangle_is_not_taken_for_a_square_in_a_file(tmp_path):
    # 32 x 64 pixels to 64 x 64 to 32 x 32, with nothing but the file to know the grid by.
    first = build(image_size=(32, 64), num_layers=1)
    model = through_file(first.model, tmp_path)
    wanted = first.weights["position_embedding/table"]
    prefix, grid = wanted[:, :1], wanted[0, 1:].reshape(4, 8, -1)
    for size in ((64, 64), (32, 32)):
        model = through_file(keras_vit.resize(model, image_size=size), tmp_path)
        grid = corners_aligned(grid, (size[0] // 8, size[1] // 8))
        table = small.values(model)["position_embedding/table"]
        np.testing.assert_array_equal(table[:, :1], prefix)
        np.testing.assert_allclose(table[0, 1:], grid.reshape(-1, grid.shape[-1]), atol=1e-6)


def test_2x8_patches_to_4x4_move():
    variant = build(image_size=(16, 64), num_layers=1)
    model = keras_vit.resize(variant.model, image_size=(32, 32))
    table = variant.weights["position_embedding/table"]
    actual = small.values(model)["position_embedding/table"]
    assert actual.shape == table.shape
    grid = table[0, 1:].reshape(2, 8, -1)
    wanted = corners_aligned(grid, (4, 4))
    np.testing.assert_allclose(actual[0, 1:].reshape(4, 4, -1), wanted, atol=1e-6)
    assert np.abs(actual - table).max() > 0.1
    ndimage = pytest.importorskip("scipy.ndimage")
    zoomed = ndimage.zoom(grid, (2, 0.5, 1), order=1, mode="nearest")
    np.testing.assert_allclose(actual[0, 1:].reshape(4, 4, -1), zoomed, atol=1e-6)


@pytest.mark.parametrize("name", ["vit_token", "vit_gap", "timm_vit_token", "hf_vit"])
def test_resized_goldens(name):
    spec, weights, golden = load_golden(name)
    model = keras_vit.VisionTransformer(**{k: v for k, v in spec.items() if k in small.ARGUMENTS})
    small.assign(model, weights)
    resized = keras_vit.resize(model, image_size=tuple(read_config(name)["resize"]))
    logits = resized.predict(golden["resized_images"], verbose=0)
    assert_close(logits, golden["resized_logits"])
    if "resized_pos_embedding" in golden:
        table = small.values(resized)["position_embedding/table"]
        wanted = golden["resized_pos_embedding"].reshape(table.shape)
        np.testing.assert_allclose(table, wanted, atol=2e-5)


def test_interpolation_can_be_chosen():
    variant = small.variant("timm")  # whose own is bicubic
    smooth = keras_vit.resize(variant.model, image_size=(24, 64))
    linear = keras_vit.resize(variant.model, image_size=(24, 64), interpolation="bilinear")
    assert_resampled(linear, variant.spec, variant.weights, (3, 8))
    difference = (
        small.values(smooth)["position_embedding/table"]
        - small.values(linear)["position_embedding/table"]
    )
    assert np.abs(difference).max() > 1e-2


# --- Patches -----------------------------------------------------------------------------------


def enlarged_patches(images, old, new):
    """Each patch enlarged by itself: linear between the centres of pixels, edges repeated."""
    batch, height, width, channels = images.shape
    grid = (height // old[0], width // old[1])
    patches = images.reshape(batch, grid[0], old[0], grid[1], old[1], channels)
    for axis, before, after in ((2, old[0], new[0]), (4, old[1], new[1])):
        centres = (np.arange(after) + 0.5) * before / after - 0.5
        patches = by_interp(patches, centres, axis)
    return patches.reshape(batch, grid[0] * new[0], grid[1] * new[1], channels).astype("float32")


@pytest.mark.parametrize("patch_size", [(16, 16), (8, 12)], ids=str)
def test_larger_patches_see_the_enlarged_image_alike(patch_size):
    variant = small.variant("plain")
    image_size = (3 * patch_size[0], 5 * patch_size[1])
    model = keras_vit.resize(variant.model, image_size=image_size, patch_size=patch_size)
    assert (model.spec.patch_size, model.spec.grid) == (patch_size, (3, 5))
    images = enlarged_patches(variant.images, (8, 8), patch_size)
    assert_close(call(model, images), expected_output(variant))
    kept = small.values(model)
    assert kept.pop("patch_embedding/kernel").shape == (*patch_size, 3, 24)
    del (wanted := dict(variant.weights))["patch_embedding/kernel"]
    small.assert_equal(kept, wanted)


def test_smaller_patches_of_the_same_image_make_a_finer_grid():
    variant = small.variant("plain")
    model = keras_vit.resize(variant.model, patch_size=4)
    assert (model.spec.image_size, model.spec.grid) == ((24, 40), (6, 10))
    wanted = resampled(variant.spec, variant.weights, (6, 10))["position_embedding/table"]
    np.testing.assert_allclose(small.values(model)["position_embedding/table"], wanted, atol=1e-6)


# --- What else is carried over -----------------------------------------------------------------


def test_the_old_model_is_left_as_it_was():
    variant = build(num_layers=1)
    model = keras_vit.resize(variant.model, image_size=(40, 24))
    for variable in model.weights:
        variable.assign(np.zeros(variable.shape))
    small.assert_equal(small.values(variant.model), variant.weights)
    assert variant.model.spec.image_size == (24, 40)


def test_name_and_facts_are_kept():
    variant = small.variant("timm")
    model = keras_vit.resize(variant.model, image_size=(32, 64))
    assert model.name == variant.model.name
    before, after = variant.model.spec.to_dict(), model.spec.to_dict()
    assert {name for name in before if before[name] != after[name]} == {"image_size"}


def test_what_was_frozen_stays_frozen():
    variant = build(layer_scale=0.1)
    model = variant.model
    model.get_layer("patch_embedding").trainable = False
    model.get_layer("block_0").attention.trainable = False
    model.get_layer("block_1").mlp_norm.gamma.trainable = False
    trainable = [variable.path for variable in model.trainable_variables]
    assert 0 < len(trainable) < len(model.weights)
    resized = keras_vit.resize(model, image_size=(40, 24))
    assert [variable.path for variable in resized.trainable_variables] == trainable
    model.trainable = False
    assert keras_vit.resize(model, image_size=(40, 24)).trainable_variables == []
    assert small.variant("plain").model.trainable_variables != []


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_precision_is_kept(policy):
    variant = build(num_layers=1, dtype=policy)
    model = keras_vit.resize(variant.model, image_size=(40, 24))
    assert model.spec.dtype == policy
    assert model.get_layer("block_0").compute_dtype == policy.removeprefix("mixed_")
    assert {variable.dtype for variable in model.weights} == {"float32"}
    assert_resampled(model, variant.spec, variant.weights, (5, 3))


def test_a_resized_model_trains_saves_and_reloads(tmp_path):
    variant = build(num_layers=1, num_registers=1)
    model = keras_vit.resize(variant.model, image_size=(32, 48))
    spec = {**variant.spec, "image_size": (32, 48)}
    images = random_images(spec, seed=6)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    before = small.values(model)
    model.fit(images, LABELS, verbose=0)
    weights = small.values(model)
    assert np.abs(weights["position_embedding/table"] - before["position_embedding/table"]).any()
    loaded = through_file(model, tmp_path)
    assert loaded.spec == model.spec
    small.assert_equal(small.values(loaded), weights)
    assert_close(loaded.predict(images, verbose=0), forward(spec, weights, images)["logits"])


def test_a_model_with_preprocessing_inside_is_resized():
    variant = build(include_preprocessing=True, num_layers=1)
    model = keras_vit.resize(variant.model, image_size=(40, 24))
    assert model.get_layer("pixel_normalization").mean == (0.5,)
    assert_resampled(model, variant.spec, variant.weights, (5, 3))


def test_a_model_on_a_plain_input_tensor_is_resized():
    variant = build(input_tensor=keras.Input((24, 40, 3), name="pixels"), num_layers=1)
    model = keras_vit.resize(variant.model, image_size=(40, 24))
    assert_resampled(model, variant.spec, variant.weights, (5, 3))


# --- What is refused ---------------------------------------------------------------------------


def test_sizes_and_names_that_do_not_fit_are_refused():
    model = small.variant("plain").model
    with pytest.raises(ValueError, match="`image_size`, a `patch_size` or both"):
        keras_vit.resize(model)
    with pytest.raises(ValueError, match="height.*nearest.*24 and 32"):
        keras_vit.resize(model, image_size=(28, 40))
    with pytest.raises(ValueError, match="width.*patch of 7 are 35 and 42"):
        keras_vit.resize(model, patch_size=(8, 7))
    with pytest.raises(ValueError, match="'bilinear', 'bicubic_antialias', 'bicubic'.*'nearest'"):
        keras_vit.resize(model, image_size=48, interpolation="nearest")
    with pytest.raises(ValueError, match="`image_size` must be a positive integer or a pair"):
        keras_vit.resize(model, image_size=(24, 40, 3))


def test_layers_before_the_model_are_refused():
    inputs = keras.Input((24, 40, 3))
    variant = build(input_tensor=keras.layers.Rescaling(2.0)(inputs), num_layers=1)
    with pytest.raises(ValueError, match="`input_tensor` with layers before it"):
        keras_vit.resize(variant.model, image_size=(40, 24))


def test_lora_is_refused():
    variant = build(num_layers=1)
    variant.model.get_layer("block_0").attention.query.enable_lora(2)
    with pytest.raises(ValueError, match="quantisation, LoRA or surgery.*lora_kernel_a"):
        keras_vit.resize(variant.model, image_size=(40, 24))


# Keras tells of every layer that it leaves in floats.
@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method:UserWarning")
def test_quantised_models_are_refused():
    variant = build(num_layers=1)
    with small.quick_quantisation():
        variant.model.quantize("int8")
    with pytest.raises(ValueError, match="quantisation, LoRA or surgery.*kernel_scale"):
        keras_vit.resize(variant.model, image_size=(40, 24))
