"""transformers' names, layouts and configurations."""

import json

import numpy as np
import pytest
from foreign_weights import assert_golden, assert_same, golden_arrays, logits, model
from golden_weights import GOLDENS, load_golden
from reference_vit import random_images

from keras_vit.weights import checkpoint as checkpoints
from keras_vit.weights import huggingface, huggingface_config

HEADS = 3


@pytest.fixture(scope="module")
def config():
    return json.loads((GOLDENS / "hf_vit" / "config.json").read_text())


@pytest.fixture(scope="module")
def arrays():
    return golden_arrays("hf_vit")


@pytest.fixture(scope="module")
def expected():
    return load_golden("hf_vit").weights


def test_golden(arrays, config):
    checkpoint = huggingface.read(arrays, config)
    assert_golden(checkpoint, "hf_vit")
    assert checkpoint.facts["origin"] == "huggingface"
    assert checkpoint.facts["activation"] == "gelu"
    assert checkpoint.facts["layer_norm_epsilon"] == 1e-12
    assert checkpoint.facts["image_size"] == (32, 32)
    assert checkpoint.position_grid == (4, 4)
    assert "class_names" not in checkpoint.facts  # LABEL_0 is no name
    assert checkpoint.unused == {}


# Layouts and names.


def test_layouts_by_hand(arrays, config):
    weights = huggingface.read(arrays, config).weights
    layer = "vit.encoder.layer.1"
    for name in ("query", "key", "value"):
        matrix = arrays[f"{layer}.attention.attention.{name}.weight"]  # (out, in)
        kernel = weights[f"block_1/attention/{name}/kernel"]
        assert kernel.shape == (48, 3, 16)
        assert kernel[5, 2, 7] == matrix[2 * 16 + 7, 5]
        bias = arrays[f"{layer}.attention.attention.{name}.bias"]
        assert weights[f"block_1/attention/{name}/bias"][1, 3] == bias[16 + 3]
    output = arrays[f"{layer}.attention.output.dense.weight"]
    assert weights["block_1/attention/output/kernel"][2, 7, 5] == output[5, 2 * 16 + 7]
    mlp = arrays[f"{layer}.intermediate.dense.weight"]
    assert weights["block_1/mlp/hidden/kernel"][4, 80] == mlp[80, 4]
    np.testing.assert_array_equal(
        weights["block_1/mlp/output/kernel"], arrays[f"{layer}.output.dense.weight"].T
    )
    patches = arrays["vit.embeddings.patch_embeddings.projection.weight"]
    assert weights["patch_embedding/kernel"][1, 2, 0, 9] == patches[9, 0, 1, 2]


def test_the_bare_model_has_no_prefix_and_a_pooler(arrays, config):
    bare = {
        key.removeprefix("vit."): array
        for key, array in arrays.items()
        if not key.startswith("classifier.")
    }
    bare["pooler.dense.weight"] = np.arange(48 * 40, dtype="float32").reshape(40, 48)
    bare["pooler.dense.bias"] = np.arange(40, dtype="float32")
    checkpoint = huggingface.read(bare, {**config, "pooler_output_size": 40})
    assert (checkpoint.facts["representation_size"], checkpoint.facts["classes"]) == (40, None)
    np.testing.assert_array_equal(
        checkpoint.weights["pre_logits/kernel"], bare["pooler.dense.weight"].T
    )
    with pytest.raises(ValueError, match="pooler_output_size=48"):
        huggingface.read(bare, config)


def test_a_pooler_beside_a_classifier_is_not_read(arrays, config, expected):
    pooler = {
        "vit.pooler.dense.weight": np.zeros((48, 48)),
        "vit.pooler.dense.bias": np.zeros(48),
    }
    checkpoint = huggingface.read({**arrays, **pooler}, config)
    assert_same(checkpoint.weights, expected)
    assert checkpoint.unused.keys() == pooler.keys()


def test_parts_of_masked_image_modelling_are_unused(arrays, config, expected):
    extra = {
        "vit.embeddings.mask_token": np.zeros((1, 1, 48)),
        "decoder.0.weight": np.zeros((768, 48, 1, 1)),
        "decoder.0.bias": np.zeros(768),
    }
    checkpoint = huggingface.read({**arrays, **extra}, config)
    assert_same(checkpoint.weights, expected)
    assert checkpoint.unused.keys() == extra.keys()
    assert all("pre-training" in reason for reason in checkpoint.unused.values())


def test_module_names_of_transformers_5(arrays, config, expected):
    def renamed(key):
        for old, new in [
            ("encoder.layer.", "layers."),
            ("attention.attention.query", "attention.q_proj"),
            ("attention.attention.key", "attention.k_proj"),
            ("attention.attention.value", "attention.v_proj"),
            ("attention.output.dense", "attention.o_proj"),
            ("intermediate.dense", "mlp.fc1"),
            (".output.dense", ".mlp.fc2"),
        ]:
            key = key.replace(old, new)
        return key

    modules = {renamed(key): array for key, array in arrays.items()}
    assert "vit.layers.2.mlp.fc2.weight" in modules
    assert_same(huggingface.read(modules, config).weights, expected)


def test_wrapping_prefixes(arrays, config, expected):
    wrapped = {f"module.{key}": array for key, array in arrays.items()}
    assert_same(huggingface.read(wrapped, config).weights, expected)


def test_one_weight_under_two_names(arrays, config):
    twice = {**arrays, "layernorm.weight": arrays["vit.layernorm.weight"]}
    with pytest.raises(ValueError, match="'vit.layernorm.weight' and 'layernorm.weight'"):
        huggingface.read(twice, config)


# DINOv2.


def dinov2(registers):
    """(arrays, weights under our paths, facts) of a DINOv2 model, by names written out here."""
    facts, weights = model(
        origin="timm",
        layer_scale=1.0,
        include_top=False,
        pooling="token",
        num_registers=registers,
        mlp_dim=48,
    )
    table = weights["position_embedding/table"]
    table[:, 1 : 1 + registers] = 0
    arrays = {
        "embeddings.cls_token": weights["class_token/token"],
        "embeddings.mask_token": np.zeros((1, 24), "float32"),
        "embeddings.position_embeddings": np.delete(table, range(1, 1 + registers), axis=1),
        "embeddings.patch_embeddings.projection.weight": np.moveaxis(
            weights["patch_embedding/kernel"], [3, 2], [0, 1]
        ),
        "embeddings.patch_embeddings.projection.bias": weights["patch_embedding/bias"],
        "layernorm.weight": weights["norm/gamma"],
        "layernorm.bias": weights["norm/beta"],
    }
    if registers:
        arrays["embeddings.register_tokens"] = weights["register_tokens/tokens"]
    for i in range(3):
        ours, theirs = f"block_{i}", f"encoder.layer.{i}"
        for number, name in [(1, "attention"), (2, "mlp")]:
            arrays[f"{theirs}.norm{number}.weight"] = weights[f"{ours}/{name}_norm/gamma"]
            arrays[f"{theirs}.norm{number}.bias"] = weights[f"{ours}/{name}_norm/beta"]
            scale = weights[f"{ours}/{name}_scale/gamma"]
            arrays[f"{theirs}.layer_scale{number}.lambda1"] = scale
        for name in ("query", "key", "value"):
            kernel = weights[f"{ours}/attention/{name}/kernel"]
            bias = weights[f"{ours}/attention/{name}/bias"]
            arrays[f"{theirs}.attention.attention.{name}.weight"] = kernel.reshape(24, 24).T
            arrays[f"{theirs}.attention.attention.{name}.bias"] = bias.reshape(24)
        kernel = weights[f"{ours}/attention/output/kernel"].reshape(24, 24)
        arrays[f"{theirs}.attention.output.dense.weight"] = kernel.T
        arrays[f"{theirs}.attention.output.dense.bias"] = weights[f"{ours}/attention/output/bias"]
        for name, layer in [("fc1", "hidden"), ("fc2", "output")]:
            arrays[f"{theirs}.mlp.{name}.weight"] = weights[f"{ours}/mlp/{layer}/kernel"].T
            arrays[f"{theirs}.mlp.{name}.bias"] = weights[f"{ours}/mlp/{layer}/bias"]
    return arrays, weights, facts


DINOV2_CONFIG = {
    "apply_layernorm": True,
    "architectures": ["Dinov2Model"],
    "attention_probs_dropout_prob": 0.0,
    "drop_path_rate": 0.0,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "hidden_size": 24,
    "image_size": [12, 20],
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-06,
    "layerscale_value": 1.0,
    "mlp_ratio": 2,
    "model_type": "dinov2",
    "num_attention_heads": 4,
    "num_channels": 3,
    "num_hidden_layers": 3,
    "out_features": ["stage3"],
    "out_indices": [3],
    "patch_size": [3, 5],
    "qkv_bias": True,
    "reshape_hidden_states": True,
    "stage_names": ["stem", "stage1", "stage2", "stage3"],
    "torch_dtype": "float32",
    "transformers_version": "4.31.0",
    "use_swiglu_ffn": False,
}


@pytest.mark.parametrize("registers", [0, 4])
@pytest.mark.parametrize("prefix", ["", "dinov2.", "dinov2_with_registers."])
def test_dinov2(registers, prefix):
    arrays, weights, _ = dinov2(registers)
    config = {**DINOV2_CONFIG, "num_register_tokens": registers}
    checkpoint = huggingface.read({prefix + k: a for k, a in arrays.items()}, config)
    assert_same(checkpoint.weights, weights)
    assert list(checkpoint.unused) == [f"{prefix}embeddings.mask_token"]
    assert checkpoint.position_grid == (4, 4)
    facts = checkpoint.facts
    assert facts["layer_scale"] is True
    assert facts["num_registers"] == registers
    assert facts["class_token_position"] is True
    assert (facts["layer_norm_epsilon"], facts["mlp_dim"]) == (1e-6, 48)


def test_the_classifier_of_dinov2_is_of_another_kind():
    arrays, weights, _ = dinov2(0)
    file = {f"dinov2.{key}": array for key, array in arrays.items()}
    file["classifier.weight"], file["classifier.bias"] = np.zeros((5, 48)), np.zeros(5)
    checkpoint = huggingface.read(file, DINOV2_CONFIG)
    assert_same(checkpoint.weights, weights)
    assert "together" in checkpoint.unused["classifier.weight"]
    assert "together" in checkpoint.unused["classifier.bias"]
    assert checkpoint.facts["classes"] is None


def test_gated_mlps_are_refused():
    arrays, _, _ = dinov2(0)
    with pytest.raises(ValueError, match="use_swiglu_ffn=True"):
        huggingface.read(arrays, {**DINOV2_CONFIG, "use_swiglu_ffn": True})
    file = {key.replace("mlp.fc1", "mlp.weights_in"): array for key, array in arrays.items()}
    with pytest.raises(ValueError, match="SwiGLU"):
        huggingface.read(file, DINOV2_CONFIG)


# config.json.


def test_every_key_of_the_goldens_config_is_known(config):
    for key in config:
        assert key in huggingface_config.KNOWN_KEYS


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("qkv_bias", False),
        ("pooler_act", "relu"),
        ("hidden_act", "gelu_10"),
        ("model_type", "deit"),
        ("model_type", "vit_hybrid"),
        ("add_cross_attention", True),
        ("pruned_heads", {"0": [1]}),
        ("chunk_size_feed_forward", 2),
        ("quantization_config", {"bits": 4}),
        ("rope_theta", 100.0),
        ("some_new_key", None),
    ],
)
def test_keys_that_cannot_be_followed_are_refused(arrays, config, key, value):
    with pytest.raises(
        ValueError, match=f"{key}={value!r}".replace("{", r"\{").replace("[", r"\[")
    ):
        huggingface.read(arrays, {**config, key: value})


@pytest.mark.parametrize(
    ("key", "value", "fact"),
    [
        ("hidden_size", 64, "hidden_dim"),
        ("num_hidden_layers", 12, "num_layers"),
        ("intermediate_size", 192, "mlp_dim"),
        ("num_channels", 1, "channels"),
        ("patch_size", 16, "patch_size"),
        ("num_register_tokens", 4, "num_registers"),
    ],
)
def test_a_config_of_other_sizes_is_refused(arrays, config, key, value, fact):
    with pytest.raises(ValueError, match=f"{fact}=.* from weights, {fact}=.* from config.json"):
        huggingface.read(arrays, {**config, key: value})


def test_an_image_size_that_the_table_does_not_have(arrays, config):
    with pytest.raises(ValueError, match="17 rows.*6 x 6"):
        huggingface.read(arrays, {**config, "image_size": 48})


@pytest.mark.parametrize(
    ("hidden_act", "activation"),
    [
        ("gelu", "gelu"),
        ("gelu_new", "gelu_tanh"),
        ("gelu_pytorch_tanh", "gelu_tanh"),
        ("relu", "relu"),
        ("swish", "silu"),
    ],
)
def test_settings_become_facts(arrays, config, hidden_act, activation):
    changed = {
        "hidden_act": hidden_act,
        "layer_norm_eps": 1e-5,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.2,
    }
    facts = huggingface.read(arrays, {**config, **changed}).facts
    assert facts["activation"] == activation
    assert facts["layer_norm_epsilon"] == 1e-5
    assert (facts["dropout_rate"], facts["attention_dropout_rate"]) == (0.1, 0.2)


def test_class_names_come_in_the_order_of_their_indices(arrays, config):
    names = ["ant", "bee", "cat", "dog", "elk", "fly", "gnu"]
    labels = {str(index): names[index] for index in (6, 2, 0, 1, 5, 4, 3)}
    facts = huggingface.read(arrays, {**config, "id2label": labels}).facts
    assert facts["class_names"] == tuple(names)
    with pytest.raises(ValueError, match="id2label.*count from 0"):
        huggingface.read(arrays, {**config, "id2label": {**labels, "9": "hen"}})
    del labels["6"]
    with pytest.raises(ValueError, match="id2label.*7 classes"):
        huggingface.read(arrays, {**config, "id2label": labels})


def test_without_config(arrays, expected):
    with pytest.raises(ValueError, match="config.json.*pass `num_heads`"):
        huggingface.read(arrays)
    checkpoint = huggingface.read(arrays, num_heads=HEADS)
    assert_same(checkpoint.weights, expected)
    assert checkpoint.position_grid == (4, 4)
    with pytest.raises(ValueError, match="num_heads=6.*num_heads=3"):
        huggingface.read(arrays, {"num_attention_heads": 3}, num_heads=6)


def test_a_class_token_always_has_a_position(arrays):
    file = {**arrays, "vit.embeddings.position_embeddings": np.zeros((1, 49, 48))}
    checkpoint = huggingface.read(file, num_heads=HEADS)
    assert checkpoint.facts["class_token_position"] is True
    assert checkpoint.position_grid is None  # 48 rows, 6 x 8 perhaps
    assert checkpoint.with_grid((6, 8)).position_grid == (6, 8)
    with pytest.raises(ValueError, match="49 rows"):
        checkpoint.with_grid((7, 7))


def test_unknown_and_missing(arrays, config):
    file = {**arrays, "vit.encoder.layer.0.adapter.weight": np.zeros(3)}
    del file["vit.encoder.layer.2.output.dense.bias"]
    with pytest.raises(ValueError) as error:
        huggingface.read(file, config)
    assert "encoder.layer.2.output.dense.bias" in str(error.value)
    assert "'vit.encoder.layer.0.adapter.weight'" in str(error.value)


# Writing.


def test_writing_gives_the_golden_back(arrays, config):
    spec, weights, _ = load_golden("hf_vit")
    assert_same(huggingface.write(weights, spec), arrays)
    written = huggingface.config(weights, spec)
    for key, value in written.items():
        assert config[key] == value, key


@pytest.mark.parametrize("registers", [0, 4])
def test_writing_gives_dinov2_back(registers):
    arrays, weights, facts = dinov2(registers)
    assert_same(huggingface.write(weights, facts), arrays)
    config = huggingface.config(weights, facts)
    assert config["model_type"] == ("dinov2_with_registers" if registers else "dinov2")
    assert config["mlp_ratio"] == 2
    assert huggingface.read(arrays, config).facts["num_registers"] == registers


def test_positions_of_registers_go_into_the_registers():
    facts, weights = model(
        origin="timm",
        layer_scale=0.5,
        num_registers=2,
        include_top=False,
        pooling="token",
        mlp_dim=72,
    )
    checkpoint = huggingface.read(
        huggingface.write(weights, facts), huggingface.config(weights, facts)
    )
    np.testing.assert_array_equal(
        checkpoint.weights["register_tokens/tokens"],
        weights["register_tokens/tokens"] + weights["position_embedding/table"][:, 1:3],
    )
    assert not checkpoint.weights["position_embedding/table"][:, 1:3].any()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"origin": "google"},
        {"origin": "timm", "activation": "relu"},
        {"include_top": False, "pooling": None},
        {"include_top": False, "pooling": "token"},
        {"class_names": ("a", "b", "c", "d", "e")},
    ],
    ids=str,
)
def test_round_trip(fields):
    spec, weights = model(**{"origin": "huggingface", **fields})
    written, config = huggingface.write(weights, spec), huggingface.config(weights, spec)
    config = json.loads(json.dumps(config))
    checkpoint = huggingface.read(written, config)
    assert_same(checkpoint.weights, weights)
    assert checkpoint.position_grid == (4, 4)
    for name in ("activation", "layer_norm_epsilon", "image_size", "patch_size", "mlp_dim"):
        assert checkpoint.facts[name] == spec[name]
    assert checkpoint.facts.get("class_names") == spec["class_names"]
    # The origin is lost unless it is recorded.
    recorded = huggingface.read(written, config, metadata=checkpoints.record(spec, (4, 4)))
    assert recorded.facts["origin"] == spec["origin"]


def test_logits_survive_the_round_trip():
    spec, weights = model(origin="google", classifier_activation=None)
    checkpoint = huggingface.read(
        huggingface.write(weights, spec), huggingface.config(weights, spec)
    )
    images = random_images(spec, seed=3)
    np.testing.assert_allclose(  # the layout in memory differs, and so the order of sums
        logits(checkpoint.facts, checkpoint.weights, images),
        logits(spec, weights, images),
        rtol=1e-12,
    )


def test_pre_logits_are_the_pooler_of_a_bare_model():
    spec, weights = model(origin="huggingface", representation_size=7)
    with pytest.raises(ValueError, match="pre-logits below a classifier"):
        huggingface.write(weights, spec)
    weights = {path: w for path, w in weights.items() if not path.startswith("head/")}
    written = huggingface.write(weights, spec)
    config = huggingface.config(weights, spec)
    assert written["pooler.dense.weight"].shape == (7, 24)
    assert (config["architectures"], config["pooler_output_size"]) == (["ViTModel"], 7)
    assert_same(huggingface.read(written, config).weights, weights)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"position_embedding": "sincos2d"}, "'learned'"),
        ({"position_embedding": "none"}, "'learned'"),
        ({"position_injection": "every_layer"}, "every layer"),
        ({"class_token": False, "pooling": "avg"}, "without class token"),
        ({"class_token_position": False}, "without position"),
        ({"pooling": "avg"}, "pooling by 'avg'"),
        ({"pooling": "map"}, "pooling by 'map'"),
        ({"norm_after_pool": True}, "after pooling"),
        ({"qk_norm": True}, "query and key"),
        ({"num_registers": 2}, "registers without layer scale"),
        ({"layer_scale": 0.1}, "classifier"),
        ({"layer_scale": 0.1, "include_top": False}, "multiple as wide"),
        ({"activation": "tanh"}, "'tanh'"),
    ],
)
def test_what_the_format_cannot_express_is_refused(fields, named):
    spec, weights = model(**{"origin": "huggingface", "class_token": True, **fields})
    for write in (huggingface.write, huggingface.config):
        with pytest.raises(ValueError, match=named):
            write(weights, spec)
