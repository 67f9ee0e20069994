"""timm's names and layouts."""

import numpy as np
import pytest
from foreign_weights import SIZES, TOLERANCE, assert_golden, assert_same, golden_arrays, model
from golden_weights import GOLDENS, VIT_GOLDENS, load_golden, read_safetensors
from reference_vit import forward

from keras_vit.weights import checkpoint as checkpoints
from keras_vit.weights import timm, timm_config

TIMM_GOLDENS = [name for name in VIT_GOLDENS if name.startswith("timm_")]
HEADS = 3  # of every golden


@pytest.fixture(scope="module")
def arrays():
    return golden_arrays("timm_vit_token")


@pytest.fixture(scope="module")
def expected():
    return load_golden("timm_vit_token").weights


@pytest.mark.parametrize("name", TIMM_GOLDENS)
def test_goldens(name):
    checkpoint = timm.read(golden_arrays(name), num_heads=HEADS)
    assert_golden(checkpoint, name)
    assert checkpoint.facts["origin"] == "timm"
    assert checkpoint.position_grid == (4, 4)
    assert checkpoint.unused == {}


def swapped(weights, one, other):
    for part in ("kernel", "bias"):
        a, b = (f"block_1/attention/{name}/{part}" for name in (one, other))
        weights[a], weights[b] = weights[b], weights[a]


def transposed(weights, name):
    shape = weights[name].shape
    weights[name] = weights[name].reshape(48, 48).T.reshape(shape)


def shifted(weights):
    weights["position_embedding/table"] = np.roll(weights["position_embedding/table"], 1, axis=1)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda weights: swapped(weights, "query", "key"),
        lambda weights: swapped(weights, "key", "value"),
        lambda weights: transposed(weights, "block_1/attention/value/kernel"),
        lambda weights: transposed(weights, "block_1/attention/output/kernel"),
        shifted,
    ],
    ids=["query and key", "key and value", "value", "output", "positions"],
)
def test_mistakes_that_shapes_do_not_show_are_seen_in_the_logits(arrays, mistake):
    spec, _, expected = load_golden("timm_vit_token")
    weights = dict(timm.read(arrays, num_heads=HEADS).weights)
    mistake(weights)
    logits = forward(spec, weights, expected["images"])["logits"]
    error = np.abs(logits - expected["logits"]).max() / np.abs(expected["logits"]).max()
    assert error > 100 * TOLERANCE


# Layouts, by hand. D 6 and h 2 give d 3; M 5; nothing is square but by intent.


def numbered(*shape, start=0):
    return np.arange(start, start + np.prod(shape), dtype="float32").reshape(shape)


@pytest.fixture
def small():
    """One block of width 6 with two heads; patches of 2 x 3 pixels of 4 channels."""
    vectors = {
        f"{name}.{part}": numbered(6)
        for name in ("blocks.0.norm1", "blocks.0.norm2", "norm")
        for part in ("weight", "bias")
    }
    return {
        **vectors,
        "patch_embed.proj.weight": numbered(6, 4, 2, 3),
        "patch_embed.proj.bias": numbered(6),
        "pos_embed": numbered(1, 4, 6),
        "blocks.0.attn.qkv.weight": numbered(18, 6),
        "blocks.0.attn.qkv.bias": numbered(18),
        "blocks.0.attn.proj.weight": numbered(6, 6),
        "blocks.0.attn.proj.bias": numbered(6),
        "blocks.0.mlp.fc1.weight": numbered(5, 6),
        "blocks.0.mlp.fc1.bias": numbered(5),
        "blocks.0.mlp.fc2.weight": numbered(6, 5),
        "blocks.0.mlp.fc2.bias": numbered(6),
    }


def test_queries_keys_and_values_lie_below_one_another_head_by_head(small):
    weights = timm.read(small, num_heads=2).weights
    matrix, bias = small["blocks.0.attn.qkv.weight"], small["blocks.0.attn.qkv.bias"]
    for part, name in enumerate(["query", "key", "value"]):
        kernel = weights[f"block_0/attention/{name}/kernel"]
        assert kernel.shape == (6, 2, 3)
        for head in range(2):
            for i in range(3):
                row = 6 * part + 3 * head + i
                np.testing.assert_array_equal(kernel[:, head, i], matrix[row])
                assert weights[f"block_0/attention/{name}/bias"][head, i] == bias[row]


def test_attention_output(small):
    kernel = timm.read(small, num_heads=2).weights["block_0/attention/output/kernel"]
    assert kernel.shape == (2, 3, 6)
    for head in range(2):
        for i in range(3):
            np.testing.assert_array_equal(
                kernel[head, i], small["blocks.0.attn.proj.weight"][:, 3 * head + i]
            )


def test_patch_kernel_and_dense_layers(small):
    checkpoint = timm.read(small, num_heads=2)
    kernel = checkpoint.weights["patch_embedding/kernel"]
    assert kernel.shape == (2, 3, 4, 6)
    assert kernel[1, 2, 3, 5] == small["patch_embed.proj.weight"][5, 3, 1, 2]
    assert kernel[0, 2, 1, 4] == small["patch_embed.proj.weight"][4, 1, 0, 2]
    hidden = checkpoint.weights["block_0/mlp/hidden/kernel"]
    assert hidden.shape == (6, 5)
    assert hidden[4, 2] == small["blocks.0.mlp.fc1.weight"][2, 4]
    assert checkpoint.facts["patch_size"] == (2, 3)
    assert checkpoint.facts["channels"] == 4
    assert checkpoint.facts["mlp_dim"] == 5


def test_attention_pooling_has_keys_before_values(small):
    pooling = {
        "attn_pool.latent": numbered(1, 1, 6),
        "attn_pool.q.weight": numbered(6, 6, start=100),
        "attn_pool.q.bias": numbered(6),
        "attn_pool.kv.weight": numbered(12, 6, start=200),
        "attn_pool.kv.bias": numbered(12),
        "attn_pool.proj.weight": numbered(6, 6, start=300),
        "attn_pool.proj.bias": numbered(6),
        "attn_pool.norm.weight": numbered(6),
        "attn_pool.norm.bias": numbered(6),
        "attn_pool.mlp.fc1.weight": numbered(5, 6),
        "attn_pool.mlp.fc1.bias": numbered(5),
        "attn_pool.mlp.fc2.weight": numbered(6, 5),
        "attn_pool.mlp.fc2.bias": numbered(6),
    }
    checkpoint = timm.read({**small, **pooling}, num_heads=2)
    weights, matrix = checkpoint.weights, pooling["attn_pool.kv.weight"]
    assert checkpoint.facts["pooling"] == "map"
    np.testing.assert_array_equal(weights["map_pooling/probe"], pooling["attn_pool.latent"])
    for head in range(2):
        for i in range(3):
            row = 3 * head + i
            for name, lines in [
                ("query", pooling["attn_pool.q.weight"]),
                ("key", matrix[:6]),
                ("value", matrix[6:]),
            ]:
                kernel = weights[f"map_pooling/attention/{name}/kernel"]
                np.testing.assert_array_equal(kernel[:, head, i], lines[row])
    assert weights["map_pooling/mlp/hidden/kernel"].shape == (6, 5)
    np.testing.assert_array_equal(
        weights["map_pooling/attention/output/kernel"][1, 2], pooling["attn_pool.proj.weight"][:, 5]
    )


def test_a_fused_matrix_of_another_height(small):
    small["blocks.0.attn.qkv.weight"] = numbered(17, 6)
    with pytest.raises(ValueError, match=r"'blocks.0.attn.qkv.weight' must hold 3.*\(17, 6\)"):
        timm.read(small, num_heads=2)


# Names.


@pytest.mark.parametrize(
    "prefix",
    ["module.", "model.", "_orig_mod.", "state_dict.", "state_dict_ema.", "model_ema.", "params."],
)
def test_wrapping_prefixes(arrays, expected, prefix):
    wrapped = {f"{prefix}{key}": array for key, array in arrays.items()}
    assert_same(timm.read(wrapped, num_heads=HEADS).weights, expected)
    twice = {f"state_dict.{key}": array for key, array in wrapped.items()}
    assert_same(timm.read(twice, num_heads=HEADS).weights, expected)


def test_two_models_in_one_file_are_not_chosen_from(arrays):
    both = {f"{p}.{key}": a for p in ("model", "model_ema") for key, a in arrays.items()}
    with pytest.raises(ValueError, match="Unknown.*model_ema.blocks.0"):
        timm.read(both, num_heads=HEADS)


def test_layer_scale_in_the_spelling_of_deit():
    arrays = golden_arrays("timm_vit_reg_layerscale_qknorm")
    old = {
        key.replace("ls1.gamma", "gamma_1").replace("ls2.gamma", "gamma_2"): array
        for key, array in arrays.items()
    }
    assert "blocks.1.gamma_2" in old
    assert_golden(timm.read(old, num_heads=HEADS), "timm_vit_reg_layerscale_qknorm")


def test_norm_before_and_after_pooling(arrays):
    assert timm.read(arrays, num_heads=HEADS).facts["norm_after_pool"] is False
    moved = {key.replace("norm.", "fc_norm.") if key.startswith("norm.") else key: array
             for key, array in arrays.items()}  # fmt: skip
    facts = timm.read(moved, num_heads=HEADS).facts
    assert facts["norm_after_pool"] is True
    assert (facts["class_token"], facts["pooling"]) == (True, "avg")  # the token is not read
    with pytest.raises(ValueError, match="'norm.weight' and 'fc_norm.weight'"):
        timm.read({**arrays, "fc_norm.weight": arrays["norm.weight"]}, num_heads=HEADS)


def test_hybrid():
    arrays = read_safetensors(GOLDENS / "timm_hybrid.safetensors")
    checkpoint = timm.read(arrays, num_heads=HEADS)
    weights, facts = checkpoint.weights, checkpoint.facts
    assert facts["resnet"] == (1, 2)
    assert (facts["resnet_width"], facts["channels"], facts["patch_size"]) == (0.5, 3, (1, 1))
    assert checkpoint.position_grid == (8, 8)
    backbone = "patch_embed.backbone"
    for ours, theirs in [
        ("stem_conv", "stem.conv"),
        ("stage_1_unit_1/conv_proj", "stages.0.blocks.0.downsample.conv"),
        ("stage_2_unit_1/conv_proj", "stages.1.blocks.0.downsample.conv"),
        ("stage_2_unit_2/conv2", "stages.1.blocks.1.conv2"),
        ("stage_1_unit_1/conv3", "stages.0.blocks.0.conv3"),
    ]:
        array = arrays[f"{backbone}.{theirs}.weight"]
        kernel = np.moveaxis(array, [0, 1], [3, 2])  # (out, in, h, w) -> (h, w, in, out)
        np.testing.assert_array_equal(weights[f"{ours}/kernel"], kernel, strict=True)
    for ours, theirs in [
        ("stem_norm/gamma", "stem.norm.weight"),
        ("stage_2_unit_1/norm_proj/beta", "stages.1.blocks.0.downsample.norm.bias"),
        ("stage_2_unit_2/norm3/gamma", "stages.1.blocks.1.norm3.weight"),
    ]:
        np.testing.assert_array_equal(weights[ours], arrays[f"{backbone}.{theirs}"], strict=True)
    assert_same(timm.write(weights, facts), arrays)


def test_hybrid_of_a_stem_alone_has_no_stem_in_its_names():
    arrays = read_safetensors(GOLDENS / "timm_hybrid.safetensors")
    alone = {
        key.replace("backbone.stem.", "backbone."): array
        for key, array in arrays.items()
        if ".stages." not in key
    }
    checkpoint = timm.read(alone, num_heads=HEADS)
    assert checkpoint.facts["resnet"] == ()
    assert "patch_embed.backbone.conv.weight" in alone
    assert_same(timm.write(checkpoint.weights, checkpoint.facts), alone)


# Heads.


def test_the_number_of_heads_must_be_told(arrays):
    with pytest.raises(ValueError, match="pass `num_heads`"):
        timm.read(arrays)
    with pytest.raises(ValueError, match="must divide the hidden size 48.*num_heads=5"):
        timm.read(arrays, num_heads=5)


def test_where_the_number_of_heads_may_come_from(arrays, expected):
    assert_same(timm.read(arrays, metadata={"num_heads": HEADS}).weights, expected)
    config = {"architecture": "vit", "model_args": {"num_heads": HEADS}}
    assert_same(timm.read(arrays, config=config).weights, expected)
    normed = timm.read(golden_arrays("timm_vit_reg_layerscale_qknorm"))  # its q_norm has d values
    assert normed.facts["num_heads"] == HEADS
    with pytest.raises(ValueError, match="num_heads=6.*num_heads=3"):
        timm.read(arrays, num_heads=6, metadata={"num_heads": HEADS})


# Positions.


@pytest.mark.parametrize(
    ("rows", "registers", "included", "grid"),
    [
        (17, 0, True, (4, 4)),
        (50, 0, True, (7, 7)),
        (197, 0, True, (14, 14)),
        (21, 4, True, (4, 4)),
        (201, 4, True, (14, 14)),
        (16, 4, False, (4, 4)),  # 11 is no grid
        (196, 4, False, (14, 14)),  # 191 is none either
        (256, 4, False, (16, 16)),
        (9, 0, None, None),  # 3 x 3, or 1 + 2 x 4
        (9, 4, None, None),  # 3 x 3, or 5 + 2 x 2
        (25, 0, None, None),  # 5 x 5, or 1 + 4 x 6
        (49, 0, None, None),  # 7 x 7, or 1 + 6 x 8
        (196, 0, None, None),  # 14 x 14, or 1 + 13 x 15
        (1369, 4, None, None),  # 37 x 37, or 5 + 31 x 44
        (13, 0, None, None),
    ],
)
def test_rows_of_prefix_tokens(arrays, rows, registers, included, grid):
    file = {**arrays, "pos_embed": np.zeros((1, rows, 48), "float32")}
    if registers:
        file["reg_token"] = np.zeros((1, registers, 48), "float32")
    checkpoint = timm.read(file, num_heads=HEADS)
    assert checkpoint.facts["num_registers"] == registers
    assert checkpoint.facts.get("class_token_position") is included
    assert checkpoint.position_grid == grid


def test_what_is_recorded_or_configured_settles_the_grid(arrays):
    file = {**arrays, "pos_embed": np.zeros((1, 49, 48), "float32")}

    def positions(**beside):
        checkpoint = timm.read(file, num_heads=HEADS, **beside)
        return checkpoint.facts.get("class_token_position"), checkpoint.position_grid

    assert positions(metadata={"position_grid": [6, 8]}) == (True, (6, 8))
    assert positions(metadata={"position_grid": [7, 7]}) == (False, (7, 7))
    assert positions(config={"model_args": {"img_size": [48, 64]}}) == (True, (6, 8))
    assert positions(config={"pretrained_cfg": {"input_size": [3, 56, 56]}}) == (False, (7, 7))
    assert positions(config={"model_args": {"img_size": 56}}) == (False, (7, 7))
    assert positions(config={"model_args": {"no_embed_class": True}}) == (False, (7, 7))
    assert positions(config={"model_args": {"no_embed_class": False}}) == (True, None)
    with pytest.raises(ValueError, match="49 rows"):
        positions(config={"pretrained_cfg": {"input_size": [3, 64, 64]}})


def test_without_positions(arrays):
    bare = {key: array for key, array in arrays.items() if key != "pos_embed"}
    checkpoint = timm.read(bare, num_heads=HEADS)
    assert checkpoint.facts["position_embedding"] == "none"
    assert checkpoint.position_grid is None


# What else a config.json says.


def test_config(arrays):
    config = {
        "architecture": "vit_base_patch16_224",
        "global_pool": "avg",
        "model_args": {"act_layer": "gelu_tanh"},
        "pretrained_cfg": {"input_size": [3, 32, 32], "mean": [0.5, 0.5, 0.5]},
    }
    facts = timm.read(arrays, num_heads=HEADS, config=config).facts
    assert facts["pooling"] == "avg"
    assert facts["activation"] == "gelu_tanh"
    assert facts["image_size"] == (32, 32)
    assert facts["preprocessing"]["mean"] == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("config", "facts"),
    [
        ({"global_pool": "avg", "model_args": {"global_pool": "max"}}, {"pooling": "max"}),
        ({"model_args": {"act_layer": "quick_gelu"}}, {"activation": "quick_gelu"}),
        ({"architecture": "vit_base_patch32_siglip_256"}, {"activation": "gelu_tanh"}),
        ({"architecture": "vit_base_patch16_siglip_256"}, {"activation": None}),
        (
            {"architecture": "vit_base_patch32_siglip_256", "model_args": {"act_layer": "relu"}},
            {"activation": "relu"},
        ),
        ({"model_args": {"drop_path_rate": 0.2, "norm_layer": None}}, {"drop_path_rate": None}),
        ({"input_size": [3, 24, 32], "mean": [0.5] * 3}, {"image_size": (24, 32)}),
        ({"label_names": ["b", "a", "c", "e", "d"]}, {"class_names": ("b", "a", "c", "e", "d")}),
        (
            {"pretrained_cfg": {"label_names": list("vwxyz")}},
            {"class_names": ("v", "w", "x", "y", "z")},
        ),
    ],
    ids=str,
)
def test_what_a_config_says(config, facts):
    said = timm_config.configured(config, classes=5)
    for name, value in facts.items():
        assert said.get(name) == value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("act_layer", "gelu_10"),
        ("global_pool", "avgmax"),
        ("global_pool", ""),
        ("pool_include_prefix", True),
        ("norm_layer", "rmsnorm"),
        ("mlp_layer", "SwiGLUPacked"),
        ("attn_layer", "diff"),
        ("block_fn", "ParallelScalingBlock"),
        ("some_new_argument", None),
    ],
)
def test_arguments_that_cannot_be_followed_are_refused(arrays, key, value):
    with pytest.raises(ValueError, match=f"Received: {key}={value!r}"):
        timm.read(arrays, num_heads=HEADS, config={"model_args": {key: value}})


def test_a_backbone_need_not_pool(arrays):
    bare = {key: array for key, array in arrays.items() if not key.startswith("head.")}
    for pooling in ("", "avgmax"):
        facts = timm.read(bare, num_heads=HEADS, config={"global_pool": pooling}).facts
        assert facts["pooling"] == {"": None, "avgmax": "token"}[pooling]


def test_names_of_another_number_of_classes_are_refused():
    with pytest.raises(ValueError, match="label_names=.*classifier has 5 classes"):
        timm_config.configured({"label_names": ["a", "b"]}, classes=5)
    assert "class_names" not in timm_config.configured({"label_names": ["a", "b"]}, classes=None)


def test_contradictions_are_refused(arrays):
    with pytest.raises(ValueError, match="num_registers=0 from weights, num_registers=1"):
        timm.read(arrays, num_heads=HEADS, metadata={"num_registers": 1})
    with pytest.raises(ValueError, match="wrong_name"):
        timm.read(arrays, num_heads=HEADS, metadata={"wrong_name": 1})


# What is not understood.


def test_unused(arrays, expected):
    extra = {"mask_token": np.zeros((1, 1, 48)), "bn.num_batches_tracked": np.zeros((), int)}
    checkpoint = timm.read({**arrays, **extra}, num_heads=HEADS)
    assert sorted(checkpoint.unused) == ["bn.num_batches_tracked", "mask_token"]
    assert "pre-training" in checkpoint.unused["mask_token"]
    assert_same(checkpoint.weights, expected)


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("norm_pre.weight", "CLIP"),
        ("dist_token", "distillation"),
        ("blocks.0.mlp.w12.weight", "SwiGLU"),
        ("blocks.0.attn.q_bias", "BEiT"),
        ("pre_logits.fc.weight", "timm itself no longer has"),
        ("cls_token_2", ""),
    ],
)
def test_unknown(arrays, key, hint):
    with pytest.raises(ValueError, match=f"Unknown: .*'model.{key}'.*{hint}"):
        wrapped = {f"model.{name}": array for name, array in {**arrays, key: np.zeros(1)}.items()}
        timm.read(wrapped, num_heads=HEADS)


def test_missing(arrays):
    broken = {key: array for key, array in arrays.items() if "qkv.bias" not in key}
    with pytest.raises(ValueError, match="blocks.0.attn.qkv.bias.*blocks.2.attn.qkv.bias"):
        timm.read(broken, num_heads=HEADS)
    with pytest.raises(ValueError, match="Missing"):
        timm.read({k: a for k, a in arrays.items() if "blocks" not in k}, num_heads=HEADS)
    scaled = {**arrays, "blocks.1.ls1.gamma": np.zeros(48)}  # in one block only
    with pytest.raises(ValueError, match="blocks.0.ls1.gamma.*blocks.1.ls2.gamma"):
        timm.read(scaled, num_heads=HEADS)


# Writing.


@pytest.mark.parametrize("name", TIMM_GOLDENS)
def test_writing_gives_the_file_back(name):
    spec, weights, _ = load_golden(name)
    assert_same(timm.write(weights, spec), golden_arrays(name))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"pooling": "map", "class_token": False},
        {"pooling": "map", "num_registers": 2, "class_token": True},
        {"pooling": "max", "class_token": False, "norm_after_pool": True},
        {"pooling": "avg", "num_registers": 3, "layer_scale": 0.1, "qk_norm": True},
        {"position_embedding": "none"},
        {"num_registers": 2, "class_token_position": False},
        {"include_top": False, "pooling": None},
        {"origin": "google"},
    ],
    ids=str,
)
def test_round_trip_with_what_is_recorded(fields):
    spec, weights = model(**{"origin": "timm", **fields})
    record = checkpoints.record(spec, (4, 4))
    checkpoint = timm.read(timm.write(weights, spec), metadata=record)
    assert_same(checkpoint.weights, weights)
    for name, value in checkpoint.facts.items():
        if name in ("layer_scale", "classes") or spec[name] is None:
            continue
        assert spec.get(name, value) == value, name


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"position_embedding": "learned_2d"}, "'learned' or 'none'"),
        ({"position_embedding": "sincos2d"}, "'learned' or 'none'"),
        ({"position_injection": "shared"}, "every layer"),
        ({"representation_size": 7}, "pre-logits"),
        ({"activation": "tanh"}, "'tanh'"),
        ({"origin": "huggingface"}, "epsilon"),
    ],
)
def test_what_the_format_cannot_express_is_refused(fields, named):
    spec, weights = model(**{"origin": "timm", **fields})
    for write in (timm.write, timm.config):
        with pytest.raises(ValueError, match=named):
            write(weights, spec)


def test_a_hybrid_of_another_origin_is_refused():
    arrays = read_safetensors(GOLDENS / "timm_hybrid.safetensors")
    checkpoint = timm.read(arrays, num_heads=HEADS)
    facts = {**checkpoint.facts, "origin": "google", "activation": "gelu"}
    with pytest.raises(ValueError, match="ResNet of another origin"):
        timm.write(checkpoint.weights, facts)


def test_config_for_timm():
    spec, weights = model(origin="google", num_registers=2, class_token_position=False)
    preprocessing = {
        "mean": (0.4,),
        "std": (0.2,),
        "crop_fraction": 0.9,
        "crop_mode": "center",
        "resize_method": "bicubic",
    }
    config = timm.config(weights, {**spec, "preprocessing": preprocessing})
    arguments = config["model_args"]
    assert arguments["act_layer"] == "gelu_tanh"
    assert arguments["img_size"] == [12, 20]
    assert arguments["patch_size"] == [3, 5]
    assert (arguments["reg_tokens"], arguments["no_embed_class"]) == (2, True)
    assert (arguments["embed_dim"], arguments["depth"], arguments["num_heads"]) == (24, 3, 4)
    assert int(24 * arguments["mlp_ratio"]) == 40
    assert config["pretrained_cfg"]["mean"] == [0.4, 0.4, 0.4]
    assert config["pretrained_cfg"]["input_size"] == [3, 12, 20]
    back = timm.read(timm.write(weights, spec), config=config)
    assert_same(back.weights, weights)
    assert back.position_grid == (4, 4)
    assert back.facts["image_size"] == SIZES["image_size"]


def test_config_for_timms_hybrids():
    arrays = read_safetensors(GOLDENS / "timm_hybrid.safetensors")
    checkpoint = timm.read(arrays, num_heads=HEADS)
    with pytest.raises(ValueError, match=r"resnet=\(1, 2\), resnet_width=0.5"):
        timm.config(checkpoint.weights, {**checkpoint.facts, "image_size": (64, 64)})
