"""Google's `.npz` names, in every dialect in which files exist."""

import ml_dtypes
import numpy as np
import pytest
from foreign_weights import assert_golden, assert_same, golden_arrays, model
from golden_weights import GOLDENS, VIT_GOLDENS, load_golden, read_npz

from keras_vit.weights import google

GOOGLE_GOLDENS = [name for name in VIT_GOLDENS if name.startswith(("vit_", "bv_"))]


@pytest.fixture(scope="module")
def arrays():
    """A classic checkpoint with a class token: 17 rows of positions, indices 1, 2, 3."""
    return golden_arrays("vit_token")


@pytest.fixture(scope="module")
def expected():
    return load_golden("vit_token").weights


@pytest.mark.parametrize("name", GOOGLE_GOLDENS)
def test_goldens(name):
    checkpoint = google.read(golden_arrays(name))
    assert_golden(checkpoint, name)
    assert checkpoint.facts["origin"] == "google"
    assert checkpoint.position_grid == (None if "sincos2d" in name else (4, 4))
    assert checkpoint.unused == {}


# Names.


def linen(key):
    """The names of Flax Linen for a key in those of the released files."""
    for old, new in [
        ("MultiHeadDotProductAttention_1", "MultiHeadDotProductAttention_0"),
        ("LayerNorm_2", "LayerNorm_1"),
        ("MlpBlock_3", "MlpBlock_0"),
    ]:
        key = key.replace(old, new)
    return key


def test_both_ways_of_counting_submodules(arrays, expected):
    renamed = {linen(key): array for key, array in arrays.items()}
    assert renamed.keys() != arrays.keys()
    assert_same(google.read(renamed).weights, expected)


@pytest.mark.parametrize("prefix", ["params/", "opt/target/", "params/img/", "img/"])
def test_prefixes(arrays, expected, prefix):
    checkpoint = google.read({prefix + key: array for key, array in arrays.items()})
    assert_same(checkpoint.weights, expected)
    assert checkpoint.unused == {}


@pytest.mark.parametrize(
    ("prefix", "key", "reason"),
    [
        ("opt/target/", "opt/state/step", "optimizer"),
        ("opt/target/", "opt/state/param_states/embedding/kernel/grad_ema", "optimizer"),
        ("params/", "opt/0/mu/embedding/kernel", "optimizer"),
        ("", "opt/state/param_states/embedding/kernel", "optimizer"),
        ("params/", "extra/rng", "training run"),
        ("params/", "chrono/accum_train_time", "times of the training run"),
        ("params/img/", "params/txt/Embed_0/embedding", "image tower"),
        ("params/img/", "params/t", "image tower"),
        ("img/", "txt/Encoder_0/encoderblock_0/LayerNorm_0/scale", "image tower"),
    ],
)
def test_other_trees_are_listed_as_unused(arrays, expected, prefix, key, reason):
    file = {prefix + name: array for name, array in arrays.items()}
    checkpoint = google.read({**file, key: np.zeros(3)})
    assert_same(checkpoint.weights, expected)
    assert list(checkpoint.unused) == [key]
    assert reason in checkpoint.unused[key]


def test_ten_blocks_and_more_are_numbered_naturally():
    spec, weights = model(num_layers=12)
    arrays = google.write(weights, spec)
    assert_same(google.read(arrays).weights, weights)
    assert google.read(arrays).facts["num_layers"] == 12


def test_stacked_blocks(expected):
    arrays = golden_arrays("bv_vit_map")
    stacked = {key: array for key, array in arrays.items() if "encoderblock" not in key}
    for key in arrays:
        if "encoderblock_0" in key:
            layers = [arrays[key.replace("block_0", f"block_{i}")] for i in range(3)]
            stacked[key.replace("encoderblock_0", "encoderblock")] = np.stack(layers)
    assert len(stacked) < len(arrays)
    checkpoint = google.read(stacked)
    assert_golden(checkpoint, "bv_vit_map")


def test_attention_pooling_head_with_its_parts_at_the_top():
    arrays = golden_arrays("bv_vit_map")
    old = {
        key.removeprefix("MAPHead_0/")
        .replace("MultiHeadDotProductAttention_0", "MultiHeadDotProductAttention_1")
        .replace("MlpBlock_0", "MlpBlock_2")
        if key.startswith("MAPHead_0/")
        else key: array
        for key, array in arrays.items()
    }
    assert "probe" in old and "MlpBlock_2/Dense_0/kernel" in old
    assert_golden(google.read(old), "bv_vit_map")


def test_bfloat16_as_numpy_stores_it(arrays, expected):
    values = {key: array.astype(ml_dtypes.bfloat16) for key, array in arrays.items()}
    checkpoint = google.read({key: array.view("V2") for key, array in values.items()})
    for path, array in checkpoint.weights.items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, expected[path].astype(ml_dtypes.bfloat16))
    assert_same(google.read(values).weights, dict(checkpoint.weights))


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_floats_become_float32(arrays, expected, dtype):
    checkpoint = google.read({key: array.astype(dtype) for key, array in arrays.items()})
    np.testing.assert_array_equal(
        checkpoint.weights["head/kernel"], expected["head/kernel"].astype(dtype).astype("float32")
    )
    assert checkpoint.weights["head/kernel"].dtype == np.float32


def test_integers_are_refused(arrays):
    checkpoint = google.read({**arrays, "head/kernel": np.zeros((48, 7), "int8")})
    with pytest.raises(ValueError, match=r"'head/kernel' with dtype=int8"):
        checkpoint.weights["head/kernel"]


# Positions.


def with_positions(arrays, key, rows):
    kept = {name: array for name, array in arrays.items() if "pos_embedding" not in name}
    return {**kept, key: np.zeros((1, rows, 48), "float32")}


OLD = "Transformer/posembed_input/pos_embedding"


@pytest.mark.parametrize(
    ("key", "rows", "included", "grid"),
    [
        (OLD, 17, True, (4, 4)),
        (OLD, 50, True, (7, 7)),
        (OLD, 197, True, (14, 14)),
        ("pos_embedding", 16, False, (4, 4)),
        ("pos_embedding", 49, False, (7, 7)),
        ("Transformer/pos_embedding", 49, False, (7, 7)),
        ("pos_embedding", 50, False, None),  # the grid alone, 5 x 10 perhaps
        (OLD, 9, None, None),
        (OLD, 25, None, None),
        (OLD, 49, None, None),
        (OLD, 13, None, None),
    ],
)
def test_rows_for_a_class_token(arrays, key, rows, included, grid):
    checkpoint = google.read(with_positions(arrays, key, rows))
    assert checkpoint.facts.get("class_token_position") is included
    assert checkpoint.position_grid == grid
    assert checkpoint.weights.shape("position_embedding/table") == (1, rows, 48)


@pytest.mark.parametrize(("rows", "grid"), [(49, (7, 7)), (25, (5, 5)), (12, None)])
def test_rows_without_class_token(arrays, rows, grid):
    arrays = {key: array for key, array in arrays.items() if key != "cls"}
    checkpoint = google.read(with_positions(arrays, OLD, rows))
    assert checkpoint.position_grid == grid
    assert checkpoint.facts["class_token"] is False
    assert checkpoint.facts["class_token_position"] is True  # of no token at all
    assert checkpoint.facts["pooling"] == "avg"


@pytest.mark.parametrize(("grid", "included"), [((7, 7), False), ((6, 8), True), ((8, 6), True)])
def test_a_source_grid_settles_49_rows(arrays, grid, included):
    checkpoint = google.read(with_positions(arrays, OLD, 49)).with_grid(grid)
    assert checkpoint.position_grid == grid
    assert checkpoint.facts["class_token_position"] is included


def test_a_source_grid_that_does_not_fit(arrays):
    checkpoint = google.read(with_positions(arrays, OLD, 49))
    with pytest.raises(ValueError, match=r"49 rows.*5 x 8.*source_grid=\(5, 8\)"):
        checkpoint.with_grid((5, 8))
    classic = google.read(arrays)
    with pytest.raises(ValueError, match=r"17 rows"):
        classic.with_grid((17, 1))  # its class token has a row, that is known


def test_positions_under_two_names(arrays):
    with pytest.raises(ValueError, match=f"'{OLD}' and 'pos_embedding'"):
        google.read({**arrays, "pos_embedding": arrays[OLD]})


def test_what_was_recorded_beside_the_file(arrays):
    file = with_positions(arrays, OLD, 49)
    checkpoint = google.read(file, metadata={"position_grid": [6, 8], "pooling": "token"})
    assert checkpoint.position_grid == (6, 8)
    assert checkpoint.facts["class_token_position"] is True
    with pytest.raises(ValueError, match="num_heads=3 from weights, num_heads=4 from metadata"):
        google.read(arrays, metadata={"num_heads": 4})


# Hybrids.


@pytest.mark.parametrize("name", ["hybrid_stem", "hybrid_stages"])
def test_hybrids(name):
    arrays = read_npz(GOLDENS / f"{name}.npz")
    checkpoint = google.read(arrays)
    facts, weights = checkpoint.facts, checkpoint.weights
    assert facts["resnet"] == {"hybrid_stem": (), "hybrid_stages": (1, 2)}[name]
    assert (facts["resnet_width"], facts["channels"]) == (0.5, 3)
    assert facts["patch_size"] == {"hybrid_stem": (8, 8), "hybrid_stages": (1, 1)}[name]
    assert checkpoint.position_grid == {"hybrid_stem": (2, 2), "hybrid_stages": (8, 8)}[name]
    np.testing.assert_array_equal(weights["stem_conv/kernel"], arrays["conv_root/kernel"])
    assert weights["stem_norm/gamma"].shape == (32,)
    np.testing.assert_array_equal(weights["stem_norm/gamma"], arrays["gn_root/scale"][0, 0, 0])
    np.testing.assert_array_equal(weights["stem_norm/beta"], arrays["gn_root/bias"][0, 0, 0])


def test_units_of_a_hybrid():
    arrays = read_npz(GOLDENS / "hybrid_stages.npz")
    weights = google.read(arrays).weights
    for ours, theirs in [
        ("stage_1_unit_1/conv_proj/kernel", "block1/unit1/conv_proj/kernel"),
        ("stage_2_unit_1/conv1/kernel", "block2/unit1/conv1/kernel"),
        ("stage_2_unit_2/conv2/kernel", "block2/unit2/conv2/kernel"),
        ("stage_2_unit_2/conv3/kernel", "block2/unit2/conv3/kernel"),
    ]:
        np.testing.assert_array_equal(weights[ours], arrays[theirs], strict=True)
    for ours, theirs in [
        ("stage_2_unit_1/norm_proj/gamma", "block2/unit1/gn_proj/scale"),
        ("stage_2_unit_1/norm_proj/beta", "block2/unit1/gn_proj/bias"),
        ("stage_2_unit_2/norm1/gamma", "block2/unit2/gn1/scale"),
        ("stage_2_unit_2/norm3/beta", "block2/unit2/gn3/bias"),
    ]:
        np.testing.assert_array_equal(weights[ours], arrays[theirs].ravel(), strict=True)
    assert "stage_2_unit_2/conv_proj/kernel" not in weights


def test_a_hybrid_without_its_first_unit(arrays):
    hybrid = read_npz(GOLDENS / "hybrid_stages.npz")
    broken = {key: array for key, array in hybrid.items() if not key.startswith("block1/")}
    with pytest.raises(ValueError, match="block1/unit1/conv_proj/kernel"):
        google.read(broken)


# What is not understood.


def test_missing_keys_are_all_listed(arrays):
    broken = {
        k: a for k, a in arrays.items() if "_1/LayerNorm_2" not in k and "encoder_norm" not in k
    }
    with pytest.raises(ValueError) as error:
        google.read(broken)
    for key in (
        "Transformer/encoderblock_1/LayerNorm_1/scale",
        "Transformer/encoderblock_1/LayerNorm_1/bias",
        "Transformer/encoder_norm/scale",
        "Transformer/encoder_norm/bias",
    ):
        assert key in str(error.value)


def test_a_missing_block_is_not_made_up_for_by_counting(arrays):
    broken = {key: array for key, array in arrays.items() if "encoderblock_1" not in key}
    with pytest.raises(ValueError, match="Missing.*encoderblock_1/LayerNorm_0/scale"):
        google.read(broken)


def test_without_any_block(arrays):
    with pytest.raises(ValueError, match="Missing.*encoderblock"):
        google.read({key: array for key, array in arrays.items() if "encoderblock" not in key})


def test_unknown_keys_are_all_listed_as_they_are_in_the_file(arrays):
    file = {f"params/{key}": array for key, array in arrays.items()}
    file["params/Transformer/encoderblock_2/MlpBlock_3/Dense_2/kernel"] = np.zeros(3)
    file["params/patch_size"] = np.zeros(1)
    file["elsewhere"] = np.zeros(1)
    with pytest.raises(ValueError, match="Unknown") as error:
        google.read(file)
    assert "'params/Transformer/encoderblock_2/MlpBlock_3/Dense_2/kernel'" in str(error.value)
    assert "'params/patch_size'" in str(error.value)
    assert "'elsewhere'" in str(error.value)


def test_half_a_head(arrays):
    with pytest.raises(ValueError, match=r"Missing: \['head/bias'\]"):
        google.read({key: array for key, array in arrays.items() if key != "head/bias"})


def test_no_parameters_or_two_sets_of_them(arrays):
    with pytest.raises(ValueError, match="'embedding/kernel'.*none of them"):
        google.read({"a": np.zeros(1)})
    with pytest.raises(ValueError, match="'params/'"):
        google.read({**arrays, **{f"params/{key}": array for key, array in arrays.items()}})


def test_headless(arrays, expected):
    checkpoint = google.read({k: a for k, a in arrays.items() if not k.startswith("head/")})
    assert checkpoint.facts["classes"] is None
    assert_same(
        checkpoint.weights, {p: w for p, w in expected.items() if not p.startswith("head/")}
    )


# Writing.


@pytest.mark.parametrize("name", ["vit_token", "vit_pre_logits"])
def test_written_names_are_those_of_the_released_files(name):
    spec, weights, _ = load_golden(name)
    assert_same(google.write(weights, spec), golden_arrays(name))


@pytest.mark.parametrize("name", ["bv_vit_map", "bv_vit_token", "bv_vit_gap_sincos2d"])
def test_what_only_big_vision_knows_has_its_names(name):
    spec, weights, _ = load_golden(name)
    golden = {f"params/{key}": array for key, array in golden_arrays(name).items()}
    assert_same(google.write(weights, spec), golden)


def test_a_model_without_class_token_has_released_names():
    spec, weights, _ = load_golden("vit_gap")
    arrays = google.write(weights, spec)
    np.testing.assert_array_equal(arrays[OLD], weights["position_embedding/table"])
    assert_same(google.read(arrays).weights, weights)


@pytest.mark.parametrize("name", ["hybrid_stem", "hybrid_stages"])
def test_hybrids_round_trip(name):
    arrays = read_npz(GOLDENS / f"{name}.npz")
    checkpoint = google.read(arrays)
    written = google.write(checkpoint.weights, checkpoint.facts)
    assert written.keys() == arrays.keys()
    for key, array in written.items():  # GroupNorm as vectors, which both loaders take
        np.testing.assert_array_equal(array, arrays[key].squeeze() if "gn" in key else arrays[key])


def test_a_class_tokens_position_goes_into_the_token_where_there_is_no_row_for_it():
    spec, weights = model(pooling="map", class_token=True)
    arrays = google.write(weights, spec)
    table = weights["position_embedding/table"]
    np.testing.assert_array_equal(arrays["params/pos_embedding"], table[:, 1:])
    np.testing.assert_array_equal(arrays["params/cls"], weights["class_token/token"] + table[:, :1])
    assert google.read(arrays).facts["class_token_position"] is False


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"position_embedding": "learned_2d"}, "'learned' or 'sincos2d'"),
        ({"position_embedding": "relative"}, "'learned' or 'sincos2d'"),
        ({"position_embedding": "none"}, "'learned' or 'sincos2d'"),
        ({"position_injection": "every_layer"}, "every layer"),
        ({"position_injection": "shared"}, "every layer"),
        ({"num_registers": 2}, "registers"),
        ({"layer_scale": 0.1}, "layer scale"),
        ({"qk_norm": True}, "query and key"),
        ({"norm_after_pool": True, "pooling": "avg", "class_token": False}, "norm after pooling"),
        ({"pooling": "max", "class_token": False}, "'max'"),
        ({"pooling": "avg", "class_token": True}, "beside a class token"),
        ({"origin": "timm"}, "gelu_tanh"),
        ({"origin": "huggingface", "activation": "gelu_tanh"}, "epsilon"),
    ],
)
def test_what_the_format_cannot_express_is_refused(fields, named):
    spec, weights = model(**fields)
    with pytest.raises(ValueError, match=named):
        google.write(weights, spec)


def test_other_origins_with_googles_constants_are_written():
    spec, weights = model(origin="timm", activation="gelu_tanh")
    assert_same(google.read(google.write(weights, spec)).weights, weights)


def test_weights_of_something_else_are_refused():
    spec, weights = model()
    with pytest.raises(ValueError, match="no place for: .*teacher/kernel"):
        google.write({**weights, "teacher/kernel": np.zeros(3)}, spec)
    del weights["block_1/mlp/hidden/bias"]
    with pytest.raises(ValueError, match="missing: .*block_1/mlp/hidden/bias"):
        google.write(weights, spec)
