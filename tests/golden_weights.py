"""The golden checkpoints in the library's variable paths, by mappings as plain as possible.

Deliberately apart from `keras_vit.weights`: they serve the tests, know only the sets in
`goldens/`, and assert that they have used every array of the file.
"""

import json
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
from reference_vit import make_spec

GOLDENS = Path(__file__).parent / "goldens"


class Golden(NamedTuple):
    spec: dict  # fields as in `reference_vit.make_spec`
    weights: dict  # {path: array}
    expected: dict  # images, logits, encoded or pre_logits, perhaps resized_...


def read_npz(path):
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def read_safetensors(path):
    """A length, a JSON header of that length, then the arrays' bytes."""
    buffer = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", buffer[:8])
    header = json.loads(buffer[8 : 8 + length])
    header.pop("__metadata__", None)
    arrays = {}
    for name, entry in header.items():
        assert entry["dtype"] == "F32", entry
        start, stop = (8 + length + offset for offset in entry["data_offsets"])
        arrays[name] = np.frombuffer(buffer[start:stop], "<f4").reshape(entry["shape"])
    return arrays


def read_config(name):
    return json.loads((GOLDENS / f"{name}.json").read_text())


def read_expected(name):
    return read_npz(GOLDENS / f"{name}.expected.npz")


# Google: kernels already have our shapes, only the names differ.


def _take(source, target, theirs, ours, suffixes):
    for their_suffix, our_suffix in suffixes:
        target[f"{ours}/{our_suffix}"] = source.pop(f"{theirs}/{their_suffix}")


DENSE = (("kernel", "kernel"), ("bias", "bias"))
SCALE = (("scale", "gamma"), ("bias", "beta"))


def _google_attention(source, target, theirs, ours):
    for part in ("query", "key", "value"):
        _take(source, target, f"{theirs}/{part}", f"{ours}/{part}", DENSE)
    _take(source, target, f"{theirs}/out", f"{ours}/output", DENSE)


def _google_mlp(source, target, theirs, ours):
    _take(source, target, f"{theirs}/Dense_0", f"{ours}/hidden", DENSE)
    _take(source, target, f"{theirs}/Dense_1", f"{ours}/output", DENSE)


def _google_block(source, target, i, naming):
    theirs, ours = f"Transformer/encoderblock_{i}", f"block_{i}"
    attention, second_norm, mlp = (1, 2, 3) if naming == "pre-linen" else (0, 1, 0)
    _take(source, target, f"{theirs}/LayerNorm_0", f"{ours}/attention_norm", SCALE)
    _google_attention(
        source, target, f"{theirs}/MultiHeadDotProductAttention_{attention}", f"{ours}/attention"
    )
    _take(source, target, f"{theirs}/LayerNorm_{second_norm}", f"{ours}/mlp_norm", SCALE)
    _google_mlp(source, target, f"{theirs}/MlpBlock_{mlp}", f"{ours}/mlp")


def _google_map(source, target):
    target["map_pooling/probe"] = source.pop("MAPHead_0/probe")
    _google_attention(
        source, target, "MAPHead_0/MultiHeadDotProductAttention_0", "map_pooling/attention"
    )
    _take(source, target, "MAPHead_0/LayerNorm_0", "map_pooling/norm", SCALE)
    _google_mlp(source, target, "MAPHead_0/MlpBlock_0", "map_pooling/mlp")


def google_weights(source, num_layers, naming):
    """naming: "pre-linen" or "linen", the two ways in which submodules were numbered."""
    source, target = dict(source), {}
    _take(source, target, "embedding", "patch_embedding", DENSE)
    for theirs in ("Transformer/posembed_input/pos_embedding", "pos_embedding"):
        if theirs in source:
            target["position_embedding/table"] = source.pop(theirs)
    if "cls" in source:
        target["class_token/token"] = source.pop("cls")
    for i in range(num_layers):
        _google_block(source, target, i, naming)
    _take(source, target, "Transformer/encoder_norm", "norm", SCALE)
    if "MAPHead_0/probe" in source:
        _google_map(source, target)
    if "pre_logits/kernel" in source:
        _take(source, target, "pre_logits", "pre_logits", DENSE)
    _take(source, target, "head", "head", DENSE)
    assert not source, sorted(source)
    return target


# timm and Hugging Face: PyTorch's layouts, (out, in) for dense and OIHW for convolutions.

GAMMA = (("weight", "gamma"), ("bias", "beta"))


def _patch_embedding_from_torch(source, target, theirs):
    kernel = source.pop(f"{theirs}.weight")  # (D, C, ph, pw)
    target["patch_embedding/kernel"] = kernel.transpose(2, 3, 1, 0)
    target["patch_embedding/bias"] = source.pop(f"{theirs}.bias")


def _dense_from_torch(source, target, theirs, ours):
    target[f"{ours}/kernel"] = source.pop(f"{theirs}.weight").T
    target[f"{ours}/bias"] = source.pop(f"{theirs}.bias")


def _norm_from_torch(source, target, theirs, ours):
    for their_suffix, our_suffix in GAMMA:
        target[f"{ours}/{our_suffix}"] = source.pop(f"{theirs}.{their_suffix}")


def _heads_from_torch(weight, bias, target, ours, num_heads):
    """(h * d, D), (h * d,) -> (D, h, d), (h, d)."""
    target[f"{ours}/kernel"] = weight.T.reshape(weight.shape[1], num_heads, -1)
    target[f"{ours}/bias"] = bias.reshape(num_heads, -1)


def _attention_output_from_torch(source, target, theirs, ours, num_heads):
    weight = source.pop(f"{theirs}.weight")  # (D, h * d)
    target[f"{ours}/kernel"] = weight.T.reshape(num_heads, -1, weight.shape[0])
    target[f"{ours}/bias"] = source.pop(f"{theirs}.bias")


def _timm_attention(source, target, theirs, ours, num_heads):
    # One matrix holds all queries, then all keys, then all values.
    kernels = np.split(source.pop(f"{theirs}.qkv.weight"), 3)
    biases = np.split(source.pop(f"{theirs}.qkv.bias"), 3)
    for part, weight, bias in zip(("query", "key", "value"), kernels, biases, strict=True):
        _heads_from_torch(weight, bias, target, f"{ours}/{part}", num_heads)
    _attention_output_from_torch(source, target, f"{theirs}.proj", f"{ours}/output", num_heads)
    if f"{theirs}.q_norm.weight" in source:
        _norm_from_torch(source, target, f"{theirs}.q_norm", f"{ours}/query_norm")
        _norm_from_torch(source, target, f"{theirs}.k_norm", f"{ours}/key_norm")


def _timm_block(source, target, i, num_heads):
    theirs, ours = f"blocks.{i}", f"block_{i}"
    _norm_from_torch(source, target, f"{theirs}.norm1", f"{ours}/attention_norm")
    _timm_attention(source, target, f"{theirs}.attn", f"{ours}/attention", num_heads)
    _norm_from_torch(source, target, f"{theirs}.norm2", f"{ours}/mlp_norm")
    _dense_from_torch(source, target, f"{theirs}.mlp.fc1", f"{ours}/mlp/hidden")
    _dense_from_torch(source, target, f"{theirs}.mlp.fc2", f"{ours}/mlp/output")
    if f"{theirs}.ls1.gamma" in source:
        target[f"{ours}/attention_scale/gamma"] = source.pop(f"{theirs}.ls1.gamma")
        target[f"{ours}/mlp_scale/gamma"] = source.pop(f"{theirs}.ls2.gamma")


def timm_weights(source, num_layers, num_heads):
    source, target = dict(source), {}
    _patch_embedding_from_torch(source, target, "patch_embed.proj")
    target["position_embedding/table"] = source.pop("pos_embed")
    if "cls_token" in source:
        target["class_token/token"] = source.pop("cls_token")
    if "reg_token" in source:
        target["register_tokens/tokens"] = source.pop("reg_token")
    for i in range(num_layers):
        _timm_block(source, target, i, num_heads)
    final_norm = "fc_norm" if "fc_norm.weight" in source else "norm"
    _norm_from_torch(source, target, final_norm, "norm")
    _dense_from_torch(source, target, "head", "head")
    assert not source, sorted(source)
    return target


def _huggingface_block(source, target, i, num_heads):
    theirs, ours = f"vit.encoder.layer.{i}", f"block_{i}"
    _norm_from_torch(source, target, f"{theirs}.layernorm_before", f"{ours}/attention_norm")
    for part in ("query", "key", "value"):
        name = f"{theirs}.attention.attention.{part}"
        weight, bias = source.pop(f"{name}.weight"), source.pop(f"{name}.bias")
        _heads_from_torch(weight, bias, target, f"{ours}/attention/{part}", num_heads)
    _attention_output_from_torch(
        source, target, f"{theirs}.attention.output.dense", f"{ours}/attention/output", num_heads
    )
    _norm_from_torch(source, target, f"{theirs}.layernorm_after", f"{ours}/mlp_norm")
    _dense_from_torch(source, target, f"{theirs}.intermediate.dense", f"{ours}/mlp/hidden")
    _dense_from_torch(source, target, f"{theirs}.output.dense", f"{ours}/mlp/output")


def huggingface_weights(source, num_layers, num_heads):
    source, target = dict(source), {}
    _patch_embedding_from_torch(source, target, "vit.embeddings.patch_embeddings.projection")
    target["position_embedding/table"] = source.pop("vit.embeddings.position_embeddings")
    target["class_token/token"] = source.pop("vit.embeddings.cls_token")
    for i in range(num_layers):
        _huggingface_block(source, target, i, num_heads)
    _norm_from_torch(source, target, "vit.layernorm", "norm")
    _dense_from_torch(source, target, "classifier", "head")
    assert not source, sorted(source)
    return target


# The sets. The fields that a set's configuration gives in words are spelled out here.

VIT_GOLDENS = {
    "vit_token": {},
    "vit_gap": {"pooling": "avg", "class_token": False},
    "vit_pre_logits": {},
    "bv_vit_map": {"pooling": "map", "class_token": False},
    "bv_vit_gap_sincos2d": {
        "pooling": "avg",
        "class_token": False,
        "position_embedding": "sincos2d",
    },
    "bv_vit_token": {"class_token_position": False},
    "timm_vit_token": {"origin": "timm"},
    "timm_vit_gap": {"origin": "timm", "pooling": "avg", "class_token": False},
    "timm_vit_gap_fc_norm": {
        "origin": "timm",
        "pooling": "avg",
        "class_token": False,
        "norm_after_pool": True,
    },
    "timm_vit_reg_layerscale_qknorm": {
        "origin": "timm",
        "class_token_position": False,
        "num_registers": 4,
        "layer_scale": 1e-5,  # only says that there is one; the file has its values
        "qk_norm": True,
    },
    "hf_vit": {"origin": "huggingface"},
}


def golden_spec(name):
    """The spec of a ViT set, at the resolution its weights were made for."""
    config = read_config(name)
    patch_size = config["patch_size"]
    return make_spec(
        image_size=tuple(config["image_size"]),
        patch_size=(patch_size, patch_size) if isinstance(patch_size, int) else tuple(patch_size),
        num_layers=config["depth"],
        num_heads=config["num_heads"],
        hidden_dim=config["hidden_dim"],
        mlp_dim=config["mlp_dim"],
        classes=config["num_classes"],
        representation_size=config.get("representation_size"),
        **VIT_GOLDENS[name],
    )


def golden_file(name):
    """Where the foreign weights of a set lie."""
    if name == "hf_vit":
        return GOLDENS / "hf_vit" / "model.safetensors"
    suffix = ".safetensors" if name.startswith("timm_") else ".npz"
    return GOLDENS / (name + suffix)


def load_golden(name):
    """One of VIT_GOLDENS: its spec, its weights under our paths, its expected outputs."""
    spec = golden_spec(name)
    num_layers, num_heads = spec["num_layers"], spec["num_heads"]
    if spec["origin"] == "google":
        naming = read_config(name).get("naming", "linen")
        weights = google_weights(read_npz(golden_file(name)), num_layers, naming)
    elif spec["origin"] == "timm":
        weights = timm_weights(read_safetensors(golden_file(name)), num_layers, num_heads)
    else:
        weights = huggingface_weights(read_safetensors(golden_file(name)), num_layers, num_heads)
    return Golden(spec, weights, read_expected(name))
