"""Files loaded into models: every weight accounted for, or the model left as it was."""

import json
import shutil
import struct

import keras
import numpy as np
import pytest
from foreign_weights import TOLERANCE, golden_arrays
from golden_weights import (
    GOLDENS,
    VIT_GOLDENS,
    golden_file,
    golden_spec,
    load_golden,
    read_config,
    read_expected,
)
from quick_compilation import quick_compilation
from small_models import assert_equal, call, golden_model, shapes, values

import keras_vit
from keras_vit.weights import npz

__all__ = ["quick_compilation"]


def write_safetensors(path, arrays, dtype="F32", metadata=None):
    """As the format's description has it; by no code of the library's."""
    numpy_dtype = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2"}[dtype]
    header, blobs, end = {}, [], 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, array in arrays.items():
        array = np.asarray(array, "<f4")
        if dtype == "BF16":
            array = array.view("<u4") >> 16
        blob = array.astype(numpy_dtype).tobytes()
        header[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [end, end + len(blob)],
        }
        blobs.append(blob)
        end += len(blob)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    return path


def write(path, arrays):
    if path.suffix == ".npz":
        np.savez(path, **arrays)
        return path
    return write_safetensors(path, arrays)


@pytest.fixture(scope="module")
def model():
    """One model for all refusals, which must leave it as it is."""
    return golden_model("vit_token")


def assert_refused(model, source, match, **options):
    """Refused, and the model has the weights and the spec that it had."""
    before, spec = values(model), model.spec
    with pytest.raises(ValueError, match=match):
        keras_vit.load_weights(model, source, **options)
    assert_equal(values(model), before)
    assert model.spec == spec


# The goldens, through files and models, at their own resolution and at another.


@pytest.mark.parametrize("name", VIT_GOLDENS)
def test_goldens(name):
    expected = read_expected(name)
    changes, images, logits = {}, expected["images"], expected["logits"]
    if "resized_logits" in expected:
        changes["image_size"] = tuple(read_config(name)["resize"])
        images, logits = expected["resized_images"], expected["resized_logits"]
    model = golden_model(name, **changes)
    report = keras_vit.load_weights(model, golden_file(name))
    assert np.abs(call(model, images) - logits).max() < TOLERANCE * np.abs(logits).max()
    set_paths = [*report.loaded, *(weight.path for weight in report.adapted)]
    assert sorted(set_paths) == sorted(shapes(model))
    assert not report.fresh and not report.unused and not report.zero_head
    resampled = [f"grid {a}x{b} to {c}x{d}" for (a, b), (c, d) in grids(name, model)]
    assert [weight.how.split(",")[0] for weight in report.adapted] == resampled


def grids(name, model):
    """The grids of a golden's file and of the model, where its positions must be resampled."""
    spec = golden_spec(name)
    own = tuple(n // p for n, p in zip(spec["image_size"], spec["patch_size"], strict=True))
    has_table = any(path == "position_embedding/table" for path in shapes(model))
    return [(own, model.spec.grid)] if has_table and own != model.spec.grid else []


# Ports that are wrong in what shapes do not show do not pass.


def _transposed(path, value):
    square = value.ndim == 2 and value.shape[0] == value.shape[1]
    return value.T if square or path == "head/kernel" and square else value


def _transposed_output(path, value):
    if not path.endswith("attention/output/kernel"):
        return value
    heads, size, width = value.shape
    return value.reshape(width, width).T.reshape(heads, size, width)


SWAPS = {"query": "key", "key": "value", "value": "query"}


def _swapped(path, value, weights):
    parts = path.split("/")
    if "attention" in parts and parts[-2] in SWAPS:
        return weights["/".join([*parts[:-2], SWAPS[parts[-2]], parts[-1]])]
    return value


WRONG_WEIGHTS = {
    "square kernels transposed": lambda path, value, _: _transposed_output(path, value),
    "query, key and value in another order": _swapped,
    "positions shifted by a row": lambda path, value, _: (
        np.roll(value, 1, axis=1) if path == "position_embedding/table" else value
    ),
}
WRONG_CONSTANTS = {
    "epsilon of 1e-3": {"layer_norm_epsilon": 1e-3},
    "exact GELU": {"activation": "gelu"},
}


@pytest.fixture(scope="module")
def golden_error():
    """The largest error of a model of `vit_token` relative to the largest logit."""
    _, weights, expected = load_golden("vit_token")

    def error(model, convert):
        for variable in model.weights:
            variable.assign(convert(variable.path, weights[variable.path], weights))
        logits = call(model, expected["images"])
        return np.abs(logits - expected["logits"]).max() / np.abs(expected["logits"]).max()

    return error


@pytest.mark.parametrize("mistake", WRONG_WEIGHTS)
def test_wrong_weights_are_seen_by_the_goldens(golden_error, mistake):
    model = golden_model("vit_token")
    assert golden_error(model, lambda path, value, _: value) < TOLERANCE
    assert golden_error(model, WRONG_WEIGHTS[mistake]) > 10 * TOLERANCE


@pytest.mark.parametrize("mistake", WRONG_CONSTANTS)
def test_wrong_constants_are_seen_by_the_goldens(golden_error, mistake):
    model = golden_model("vit_token", **WRONG_CONSTANTS[mistake])
    assert golden_error(model, lambda path, value, _: value) > 3 * TOLERANCE


# What does not fit is listed, and nothing is loaded.


def google_file(tmp_path, change):
    arrays = dict(golden_arrays("vit_token"))
    change(arrays)
    return write(tmp_path / "changed.npz", arrays)


OLD_POSITIONS = "Transformer/posembed_input/pos_embedding"
LAST = "Transformer/encoder_norm/scale"


def _remove(arrays):
    del arrays[LAST], arrays["Transformer/encoderblock_1/LayerNorm_2/bias"]


def _add(arrays):
    arrays.update({"Transformer/extra": np.zeros(1), "cls_2": np.zeros(1)})


def _reshape(arrays):
    arrays[LAST] = np.zeros(np.size(arrays[LAST]) + 1, "float32")
    arrays["embedding/bias"] = np.zeros(7, "float32")


def _repeat(arrays):
    arrays["pos_embedding"] = arrays[OLD_POSITIONS]


def _quantise(arrays):
    arrays[LAST] = np.zeros_like(arrays[LAST], "int8")


def _other_classes(arrays):
    arrays["head/kernel"] = np.zeros((len(arrays["head/kernel"]), 9), "float32")
    arrays["head/bias"] = np.zeros(9, "float32")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (_remove, r"Missing: .*encoderblock_1/LayerNorm_\d/bias.*encoder_norm/scale"),
        (_add, r"Unknown: \['Transformer/extra', 'cls_2'\]"),
        (_reshape, r"patch_embedding/bias \(7,\) in the file.*norm/gamma"),
        (_repeat, "every weight once.*pos_embedding"),
        (_quantise, "floating-point.*encoder_norm/scale.*int8"),
        (_other_classes, r"head/kernel \(\d+, 9\).*head='reset'"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_refused_whole(tmp_path, model, change, match):
    assert_refused(model, google_file(tmp_path, change), match)


def test_a_damaged_byte_is_found_before_anything_is_set(tmp_path, model):
    path = google_file(tmp_path, lambda arrays: None)
    data = bytearray(path.read_bytes())
    last = golden_arrays("vit_token")["head/bias"].tobytes()
    data[data.rindex(last) + 1] ^= 1
    path.write_bytes(data)
    assert_refused(model, path, r"head/bias.*CRC.*changed\.npz.*fetch it again")


def test_compressed_files_are_verified_and_load(tmp_path, model):
    path = tmp_path / "compressed.npz"
    np.savez_compressed(path, **golden_arrays("vit_token"))
    other = golden_model("vit_token")
    keras_vit.load_weights(other, path)
    assert_equal(values(other), load_golden("vit_token").weights)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert_refused(model, path, r"compressed\.npz.*fetch it again")


def test_an_array_of_python_objects(tmp_path, model):
    def change(arrays):
        arrays[LAST] = np.array([{}], dtype=object)

    assert_refused(model, google_file(tmp_path, change), "without Python objects|floating-point")


def test_a_pickle_by_another_name(tmp_path, model):
    path = tmp_path / "weights.npz"
    path.write_bytes(b"\x80\x02}q\x00.")
    assert_refused(model, path, "pickle.*safetensors.torch.save_file")


def test_a_folder_with_a_pickle_alone(tmp_path, model):
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02}q\x00.")
    assert_refused(model, tmp_path, "pytorch_model.bin' is a pickle.*Convert it")


def test_constants_of_another_origin(model):
    assert_refused(model, GOLDENS / "hf_vit", "hidden_dim|constants of 'huggingface'.*'google'")
    twin = golden_model("timm_vit_token", origin="google", activation=None, layer_norm_epsilon=None)
    assert_refused(twin, golden_file("timm_vit_token"), "constants of 'timm'.*those of 'google'")


# Types of numbers.


@pytest.mark.parametrize("dtype", ["F16", "F64", "BF16"])
def test_other_floats(tmp_path, dtype):
    arrays = golden_arrays("timm_vit_token")
    path = write_safetensors(tmp_path / "model.safetensors", arrays, dtype)
    model = golden_model("timm_vit_token")
    keras_vit.load_weights(model, path)
    value, wanted = values(model)["norm/gamma"], arrays["norm.weight"]
    np.testing.assert_allclose(value, wanted, rtol={"F64": 0, "F16": 1e-3, "BF16": 8e-3}[dtype])


# Channels.


@pytest.mark.parametrize("channels", [1, 2, 4, 5, 6, 13])
def test_channels(channels):
    model = golden_model("vit_token", channels=channels)
    report = keras_vit.load_weights(model, golden_file("vit_token"))
    kernel = golden_arrays("vit_token")["embedding/kernel"]
    value = values(model)["patch_embedding/kernel"]
    if channels < 3:  # 0 + 2, 1; or all
        wanted = np.stack([kernel[:, :, c::channels].sum(2) for c in range(channels)], axis=2)
    else:
        copies = {4: [2, 1, 1], 5: [2, 2, 1], 6: [2, 2, 2], 13: [5, 4, 4]}[channels]
        shares = kernel / np.float32(copies)[:, None]
        wanted = np.tile(shares, (1, 1, 5, 1))[:, :, :channels]
    np.testing.assert_allclose(value, wanted, rtol=1e-6, atol=1e-7)
    # Grey in every channel is answered as before.
    np.testing.assert_allclose(value.sum(2), kernel.sum(2), rtol=1e-5, atol=1e-6)
    (adapted,) = report.adapted
    assert adapted.path == "patch_embedding/kernel"
    assert adapted.old_shape == kernel.shape and adapted.new_shape == wanted.shape
    rule = "summed" if channels < 3 else "in turn, divided among the copies of each"
    assert adapted.how == f"channels 3 to {channels}: {rule}"
    assert str(adapted) in str(report)


# What the head reads.


@pytest.mark.parametrize(
    ("name", "pooling"), [("vit_token", "avg"), ("vit_token", "max"), ("bv_vit_map", "avg")]
)
def test_a_head_is_not_loaded_to_read_what_it_was_not_trained_on(name, pooling):
    model = golden_model(name, pooling=pooling)
    own = golden_spec(name)["pooling"]
    assert_refused(model, golden_file(name), f"pooled by '{own}', the model's by '{pooling}'")
    report = keras_vit.load_weights(model, golden_file(name), head="reset")
    assert "norm/gamma" in report.loaded and report.fresh == ("head/kernel", "head/bias")


def test_a_file_that_does_not_tell_its_pooling_is_the_callers(tmp_path):
    path = write(tmp_path / "model.safetensors", golden_arrays("timm_vit_token"))
    keras_vit.load_weights(golden_model("timm_vit_token", pooling="avg"), path)
    (tmp_path / "config.json").write_text(json.dumps({"global_pool": "token"}))
    assert_refused(golden_model("timm_vit_token", pooling="avg"), path, "pooled by 'token'")


def test_attention_pooling_is_not_of_a_backbone_without_it():
    model = golden_model("bv_vit_map", include_top=False, pooling=None)
    report = keras_vit.load_weights(model, golden_file("bv_vit_map"))
    reason = "the model does not pool by attention"
    left = {path for path, why in report.unused.items() if why == reason}
    assert left == {path for path in load_golden("bv_vit_map").weights if "map_pooling/" in path}


# Keras's arrays without a config.


def test_arrays_of_another_model(tmp_path, model):
    other = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    other.save_weights(tmp_path / "other.weights.h5")
    assert_refused(model, tmp_path / "other.weights.h5", "no 'patch_embedding/0' among .'dense/0")


def test_arrays_with_a_head_for_a_model_without(tmp_path):
    whole = golden_model("vit_token", pooling="avg", class_token=False)
    whole.save_weights(tmp_path / "whole.weights.h5")
    model = golden_model("vit_token", pooling=None, class_token=False, include_top=False)
    report = keras_vit.load_weights(model, tmp_path / "whole.weights.h5")
    assert sorted(report.unused) == ["head/bias", "head/kernel"]
    assert_equal(values(model), {path: values(whole)[path] for path in values(model)})


# Pixels.


def test_constants_of_pixels_that_a_built_model_has_not_are_refused(tmp_path):
    path = write(tmp_path / "model.safetensors", golden_arrays("timm_vit_token"))
    config = {"pretrained_cfg": {"mean": [0.4, 0.5, 0.6], "std": [0.2, 0.2, 0.2]}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = golden_model("timm_vit_token", include_preprocessing=True)
    assert_refused(model, path, r"mean=\(0.4, 0.5, 0.6\).*in the file, mean=\(0.5,\)")
    model = golden_model("timm_vit_token")
    keras_vit.load_weights(model, path)
    assert model.spec.preprocessing.mean == (0.4, 0.5, 0.6)
    config = {"pretrained_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = golden_model("timm_vit_token", include_preprocessing=True)
    keras_vit.load_weights(model, path)
    assert model.spec.preprocessing.crop_mode == "center"


# Positions.


def with_rows(tmp_path, rows):
    """`vit_token`'s file with a position table of so many rows, the number of each row in it."""

    def change(arrays):
        width = arrays["cls"].shape[-1]
        numbers = np.arange(rows, dtype="float32")[None, :, None]
        arrays[OLD_POSITIONS] = np.broadcast_to(numbers, (1, rows, width))

    return google_file(tmp_path, change)


@pytest.mark.parametrize("rows", [9, 25, 49])
def test_an_ambiguous_grid_is_not_guessed(tmp_path, model, rows):
    side = int(rows**0.5)
    path = with_rows(tmp_path, rows)
    assert_refused(model, path, f"{rows} rows.*source_grid=")
    assert_refused(model, path, "8 rows|grid of 2 x 2", source_grid=(2, 2))
    patch = golden_spec("vit_token")["patch_size"][0]
    square = golden_model("vit_token", image_size=(side * patch, side * patch))
    keras_vit.load_weights(square, path, source_grid=(side, side))
    table = values(square)["position_embedding/table"][0, :, 0]
    np.testing.assert_array_equal(table, [0, *range(rows)])  # the class token has none: zeros
    rest = rows - 1
    grid = (2, rest // 2)
    oblong = golden_model("vit_token", image_size=(grid[0] * patch, grid[1] * patch))
    report = keras_vit.load_weights(oblong, path, source_grid=grid)
    assert "position_embedding/table" in report.loaded
    table = values(oblong)["position_embedding/table"][0, :, 0]
    np.testing.assert_array_equal(table, range(rows))


def test_the_same_number_of_rows_in_another_grid_is_resampled(tmp_path):
    patch = golden_spec("vit_token")["patch_size"][0]
    path = with_rows(tmp_path, 17)  # 1 + 4 x 4
    model = golden_model("vit_token", image_size=(2 * patch, 8 * patch))
    report = keras_vit.load_weights(model, path)
    (adapted,) = report.adapted
    assert adapted.old_shape == adapted.new_shape and "grid 4x4 to 2x8" in adapted.how
    table = values(model)["position_embedding/table"][0, 1:, 0].reshape(2, 8)
    # Corner-aligned: rows 1 + 4 r of the old grid at r = 0 and 3, columns at steps of 3/7.
    wanted = np.add.outer([1, 13], np.linspace(0, 3, 8))
    np.testing.assert_allclose(table, wanted, rtol=1e-6)


def test_the_row_of_a_class_token_that_the_model_has_not(tmp_path):
    model = golden_model("vit_token", pooling="avg", class_token=False)
    report = keras_vit.load_weights(model, with_rows(tmp_path, 17), head="reset")
    np.testing.assert_array_equal(values(model)["position_embedding/table"][0, :, 0], range(1, 17))
    (adapted,) = report.adapted
    assert adapted.how == "1 rows of prefix tokens to 0"
    assert report.unused["class_token/token"] == "the model has no class token"


def test_a_grid_only_table_in_a_model_whose_class_token_has_a_row():
    model = golden_model("bv_vit_token", class_token_position=True)
    report = keras_vit.load_weights(model, golden_file("bv_vit_token"))
    table = values(model)["position_embedding/table"]
    assert not table[:, 0].any()
    np.testing.assert_array_equal(table[:, 1:], golden_arrays("bv_vit_token")["pos_embedding"])
    assert [weight.how for weight in report.adapted] == ["0 rows of prefix tokens to 1"]


def test_a_class_token_takes_up_its_position_where_the_model_has_no_row():
    model = golden_model("vit_token", class_token_position=False)
    keras_vit.load_weights(model, golden_file("vit_token"))
    arrays, expected = golden_arrays("vit_token"), read_expected("vit_token")
    token = values(model)["class_token/token"]
    np.testing.assert_array_equal(token, arrays["cls"] + arrays[OLD_POSITIONS][:, :1])
    logits = call(model, expected["images"])
    assert np.abs(logits - expected["logits"]).max() < TOLERANCE * np.abs(expected["logits"]).max()


def test_registers_are_no_patches(tmp_path):
    name = "timm_vit_reg_layerscale_qknorm"
    model = golden_model(name, num_registers=0)
    assert_refused(model, golden_file(name), "5 prefix tokens.*registers: 4.*the model 1")


# Heads.


def test_a_head_that_is_reset_stays_as_it_was(tmp_path):
    model = golden_model("vit_token", classes=9)
    marked = {v.path: v for v in model.weights}
    marked["head/bias"].assign(np.arange(9))
    assert_refused(model, golden_file("vit_token"), r"head/bias \(\d+,\) in the file.*\(9,\)")
    report = keras_vit.load_weights(model, golden_file("vit_token"), head="reset")
    np.testing.assert_array_equal(values(model)["head/bias"], range(9))
    assert not values(model)["head/kernel"].any()
    assert sorted(report.fresh) == sorted(report.unused) == ["head/bias", "head/kernel"]
    body = load_golden("vit_token").weights
    held = values(model)
    assert_equal({p: held[p] for p in report.loaded}, {p: body[p] for p in report.loaded})
    assert len(report.loaded) == len(body) - 2


def test_pre_logits_are_part_of_the_head():
    plain = golden_model("vit_pre_logits", representation_size=None)
    assert_refused(plain, golden_file("vit_pre_logits"), "pre_logits/kernel.*head='reset'")
    report = keras_vit.load_weights(plain, golden_file("vit_pre_logits"), head="reset")
    assert sorted(report.unused) == [
        "head/bias",
        "head/kernel",
        "pre_logits/bias",
        "pre_logits/kernel",
    ]
    assert sorted(report.fresh) == ["head/bias", "head/kernel"]


def test_a_model_without_a_top_takes_any_head():
    model = golden_model(
        "vit_pre_logits", include_top=False, pooling="token", representation_size=None
    )
    report = keras_vit.load_weights(model, golden_file("vit_pre_logits"))
    assert len(report.unused) == 4 and not report.fresh
    assert set(report.unused.values()) == {"the model has no top"}


def test_a_head_of_zeros_is_reported(tmp_path):
    def zero(arrays):
        arrays["head/kernel"] = np.zeros_like(arrays["head/kernel"])

    report = keras_vit.load_weights(golden_model("vit_token"), google_file(tmp_path, zero))
    assert report.zero_head and "all zeros" in str(report)


# The report.


def test_the_report_is_a_short_table(tmp_path):
    model = golden_model("vit_token", channels=1, classes=9, image_size=(16, 40))
    report = keras_vit.load_weights(model, golden_file("vit_token"), head="reset")
    source = golden_spec("vit_token")
    width, patch = source["hidden_dim"], source["patch_size"][0]
    rows = (source["image_size"][0] // patch, source["image_size"][1] // patch)
    new = (16 // patch, 40 // patch)
    table = {weight.path: weight for weight in report.adapted}["position_embedding/table"]
    assert table.old_shape == (1, 1 + rows[0] * rows[1], width)
    assert table.new_shape == (1, 1 + new[0] * new[1], width)
    lines = str(report).splitlines()
    assert lines[0] == f"Weights of {golden_file('vit_token')}"
    assert lines[1].split() == ["loaded", str(len(report.loaded))]
    assert lines[2].split() == ["adapted", "2"]
    assert str(table) in str(report)
    assert any(line.split()[:2] == ["fresh", "2"] and "head/kernel" in line for line in lines)
    assert any(line.split()[:2] == ["unused", "2"] and "head/bias" in line for line in lines)


# Folders.


def test_a_folder_of_shards(tmp_path):
    arrays = golden_arrays("hf_vit")
    shutil.copyfile(GOLDENS / "hf_vit" / "config.json", tmp_path / "config.json")
    names = sorted(arrays)
    index = {}
    for number, keys in enumerate((names[::2], names[1::2]), start=1):
        shard = f"model-0000{number}-of-00002.safetensors"
        write_safetensors(tmp_path / shard, {k: arrays[k] for k in keys}, metadata={"format": "pt"})
        index.update(dict.fromkeys(keys, shard))
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 1}, "weight_map": index})
    )
    model = golden_model("hf_vit")
    report = keras_vit.load_weights(model, tmp_path)
    assert_equal(values(model), load_golden("hf_vit").weights)
    assert report.source == str(tmp_path)


# Memory: arrays are read one at a time, and let go.


def test_only_one_array_is_held(monkeypatch):
    import weakref

    alive, most = weakref.WeakSet(), [0]

    class Traced(np.ndarray):
        pass

    read = npz.NpzFile.__getitem__

    def traced(self, name):
        array = read(self, name).view(Traced)
        alive.add(_Key(array))
        most[0] = max(most[0], len(alive))
        return array

    class _Key:
        def __init__(self, array):
            array.key = self

    monkeypatch.setattr(npz.NpzFile, "__getitem__", traced)
    keras_vit.load_weights(golden_model("vit_token"), golden_file("vit_token"))
    assert 1 <= most[0] <= 2  # the next one is read while the variable before still names its own
