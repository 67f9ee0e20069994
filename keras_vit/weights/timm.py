"""Checkpoints of timm's VisionTransformer, in PyTorch's layouts: `.safetensors` files.

One matrix holds all queries, then all keys, then all values; how many heads they have, no name and
no shape tells. It comes from the caller, from a `config.json`, or from what keras_vit recorded.
"""

import re
from collections.abc import Mapping

import numpy as np

from keras_vit.weights import checkpoint, mapping, timm_config
from keras_vit.weights.lazy import shape_of
from keras_vit.weights.mapping import (
    CONVOLUTION,
    HEADS_BIAS,
    HEADS_IN,
    HEADS_OUT,
    Row,
    dense,
    fused_heads,
    norm,
    resnet,
)
from keras_vit.weights.timm_config import ACTIVATIONS

FORMAT = "timm"

BACKBONE = "patch_embed.backbone"
BOTTLENECK = BACKBONE + ".stages.{s0}.blocks.{u0}"
SHORTCUT = BACKBONE + ".stages.{s0}.blocks.0.downsample"
BLOCK, THEIRS = "block_{i}", "blocks.{i}"


TABLE = {
    **resnet(f"{BACKBONE}.stem.conv", f"{BACKBONE}.stem.norm", BOTTLENECK, SHORTCUT),
    "patches": dense("patch_embedding", "patch_embed.proj", CONVOLUTION),
    "class_token": (Row("class_token/token", "cls_token"),),
    "registers": (Row("register_tokens/tokens", "reg_token"),),
    "positions": (Row(checkpoint.POSITIONS, "pos_embed"),),
    "blocks": (
        *norm(f"{BLOCK}/attention_norm", f"{THEIRS}.norm1"),
        *fused_heads(f"{BLOCK}/attention", ("query", "key", "value"), f"{THEIRS}.attn.qkv"),
        *dense(f"{BLOCK}/attention/output", f"{THEIRS}.attn.proj", HEADS_OUT),
        *norm(f"{BLOCK}/mlp_norm", f"{THEIRS}.norm2"),
        *dense(f"{BLOCK}/mlp/hidden", f"{THEIRS}.mlp.fc1"),
        *dense(f"{BLOCK}/mlp/output", f"{THEIRS}.mlp.fc2"),
    ),
    "qk_norm": (
        *norm(f"{BLOCK}/attention/query_norm", f"{THEIRS}.attn.q_norm"),
        *norm(f"{BLOCK}/attention/key_norm", f"{THEIRS}.attn.k_norm"),
    ),
    "layer_scale": (
        Row(f"{BLOCK}/attention_scale/gamma", f"{THEIRS}.ls1.gamma"),
        Row(f"{BLOCK}/mlp_scale/gamma", f"{THEIRS}.ls2.gamma"),
    ),
    "norm": norm("norm", "norm"),
    "map_pooling": (
        Row("map_pooling/probe", "attn_pool.latent"),
        *dense("map_pooling/attention/query", "attn_pool.q", HEADS_IN, HEADS_BIAS),
        *fused_heads("map_pooling/attention", ("key", "value"), "attn_pool.kv"),
        *dense("map_pooling/attention/output", "attn_pool.proj", HEADS_OUT),
        *norm("map_pooling/norm", "attn_pool.norm"),
        *dense("map_pooling/mlp/hidden", "attn_pool.mlp.fc1"),
        *dense("map_pooling/mlp/output", "attn_pool.mlp.fc2"),
    ),
    "head": dense("head", "head"),
}
REQUIRED = ("patches", "blocks", "norm")

# Other spellings, and ours. The norm after pooling is a place of the same norm, not another one.
SPELLINGS = (
    (r"^(blocks\.\d+)\.gamma_([12])$", r"\1.ls\2.gamma"),  # DeiT III and BEiT, before timm
    (r"^patch_embed\.backbone\.(conv|norm)\.", r"patch_embed.backbone.stem.\1."),  # stem alone
    (r"^fc_norm\.", "norm."),
)
UNUSED = {
    r"^mask_token$": "stands for masked patches in pre-training",
    r"^decoder_(embed|pos_embed|blocks|norm|pred)\b": "reconstructs masked patches in pre-training",
    r"(^|\.)num_batches_tracked$": "counts the batches of a batch normalisation",
}
# Architectures whose ResNet is that of the hybrids, by units per stage. Sizes can be overridden.
HYBRIDS = {
    (): "vit_tiny_r_s16_p8_384",
    (2, 2, 2, 2): "vit_small_r26_s32_384",
    (3, 4, 9): "vit_base_r50_s16_384",
    (3, 4, 6, 3): "vit_large_r50_s32_384",
}
PLAIN = "vit_base_patch16_224"


def read(
    arrays: Mapping[str, np.ndarray],
    *,
    num_heads: int | None = None,
    config: Mapping | None = None,
    metadata: Mapping | None = None,
):
    """Reads a checkpoint in timm's names.

    Args:
        arrays: Arrays by key; they may be read lazily.
        num_heads: Heads of every attention layer, where nothing else tells.
        config: A `config.json` of timm, if there is one.
        metadata: What `checkpoint.record` gave when keras_vit wrote the file.

    Returns:
        A `checkpoint.Checkpoint`.

    Raises:
        ValueError: if a key is missing or unknown (all of them are listed), or if the number of
            heads is unknown, or if an argument in `config` cannot be followed.
    """
    names = mapping.strip_wrappers(arrays)
    unused = {}
    for pattern, reason in UNUSED.items():
        unused.update({key: reason for name, key in names.items() if re.search(pattern, name)})
    kept = {name: key for name, key in names.items() if key not in unused}
    names = mapping.rename(kept, _spelled)
    sources = {name: mapping.Source(key) for name, key in names.items()}
    try:
        matched = mapping.match(TABLE, REQUIRED, sources, _repeats(sources))
    except mapping.Unmatched as error:
        raise error.explained("timm's", sources) from None

    recorded, grid = checkpoint.recorded_facts(metadata)
    configured = timm_config.configured(config or {}, _classes(matched, sources, arrays))
    prepared = configured.pop("preprocessing", None)
    given = {} if num_heads is None else {"num_heads": num_heads}
    split = {**configured, **recorded, **given}
    width = shape_of(arrays, sources["blocks.0.norm1.weight"].key)[0]
    heads = _num_heads(split, matched, width, sources, arrays)
    weights = mapping.lazy_weights(matched, sources, arrays, {"num_heads": heads})

    found = checkpoint.facts_from_weights(weights)
    found["position_embedding"] = "learned" if "positions" in matched else "none"
    found["norm_after_pool"] = "fc_norm.weight" in kept
    facts = checkpoint.merge_facts(
        {"origin": "timm"},
        **{"weights": found, "arguments": given, "config.json": configured, "metadata": recorded},
    )
    if prepared is not None:
        facts.setdefault("preprocessing", prepared)
    prefix = int(found["class_token"]) + found["num_registers"]
    grid = grid or checkpoint.grid_of_size(facts)
    told = "pooling" in facts
    return checkpoint.assemble(weights, facts, unused, {0, prefix}, grid, pooling_is_told=told)


def write(weights: Mapping[str, np.ndarray], facts: Mapping) -> dict[str, np.ndarray]:
    """Names and lays out weights as timm does.

    Args:
        weights: Arrays by our variable path.
        facts: The fields of the model's spec.

    Returns:
        Arrays by key, for `safetensors.write`.

    Raises:
        ValueError: if the format cannot express the model.
    """
    _refuse(weights, facts)
    arrays = mapping.foreign_arrays(TABLE, REQUIRED, weights, FORMAT)
    stem_only = "stem_conv/kernel" in weights and not mapping.our_repeats(weights).units
    return {
        _respelled(key, stem_only, bool(facts.get("norm_after_pool"))): array
        for key, array in arrays.items()
    }


def config(weights: Mapping[str, np.ndarray], facts: Mapping) -> dict:
    """The `config.json` with which timm builds the model of `write`.

    In a folder with `model.safetensors` it is all that `timm.create_model("local-dir:FOLDER")`
    needs.

    Args:
        weights: Arrays by our variable path.
        facts: The fields of the model's spec; `image_size` is among them.

    Raises:
        ValueError: if timm has no architecture with the model's ResNet.
    """
    _refuse(weights, facts)
    sizes = checkpoint.facts_from_weights(weights)
    image_size = list(facts["image_size"])
    return {
        "architecture": _architecture(sizes),
        "num_classes": sizes["classes"] or 0,
        "num_features": sizes["hidden_dim"],
        "global_pool": _global_pool(sizes, facts),
        "model_args": _arguments(sizes, facts, weights),
        "pretrained_cfg": {
            "input_size": [sizes["channels"], *image_size],
            "fixed_input_size": True,
            "num_classes": sizes["classes"] or 0,
            "classifier": "head",
            **_preprocessing(facts.get("preprocessing"), sizes["channels"]),
        },
    }


# Reading.


def _spelled(name):
    for pattern, ours in SPELLINGS:
        name = re.sub(pattern, ours, name)
    return name


def _repeats(names):
    return mapping.Repeats(
        mapping.count(names, r"blocks\.(\d+)\."),
        mapping.count_units(names, BACKBONE + r"\.stages\.(\d+)\.blocks\.(\d+)\.", first=0),
    )


def _classes(matched, sources, arrays):
    return shape_of(arrays, sources["head.weight"].key)[0] if "head" in matched else None


def _num_heads(said, matched, width, sources, arrays):
    heads = said.get("num_heads")
    if heads is None and "qk_norm" in matched:
        head_size = shape_of(arrays, sources["blocks.0.attn.q_norm.weight"].key)[0]
        heads = width // head_size
    if heads is None:
        raise ValueError(
            "A checkpoint in timm's names does not tell how many heads its attention has: pass "
            f"`num_heads`. Received: num_heads=None, hidden_dim={width}"
        )
    return checkpoint.checked_heads(heads, width)


# Writing.


def _refuse(weights, facts):
    activation, epsilon = checkpoint.constants(facts)
    hybrid = "stem_conv/kernel" in weights
    reasons = {
        "another position embedding than 'learned' or 'none'": facts.get("position_embedding")
        not in (None, "learned", "none"),
        "positions added to every layer": facts.get("position_injection") not in (None, "stem"),
        "pre-logits": "pre_logits/kernel" in weights,
        f"the activation {activation!r}": activation not in ACTIVATIONS.values(),
        # timm takes another epsilon from Python code only.
        "another LayerNorm epsilon than 1e-6": epsilon != checkpoint.CONSTANTS["timm"][1],
        "a ResNet of another origin": hybrid and facts.get("origin", "google") != "timm",
        "kernels that have been standardised for good": bool(facts.get("folded")),
    }
    checkpoint.refuse(FORMAT, reasons, facts)


def _respelled(key, stem_only, norm_after_pool):
    if norm_after_pool and key.startswith("norm."):
        return f"fc_{key}"
    return key.replace(f"{BACKBONE}.stem.", f"{BACKBONE}.") if stem_only else key


def _architecture(sizes):
    if sizes["resnet"] is None:
        return PLAIN
    if sizes["resnet"] not in HYBRIDS or sizes["resnet_width"] != 1:
        raise ValueError(
            f"timm builds hybrids by name with these ResNets: {sorted(HYBRIDS)}, at width 1. "
            f"Received: resnet={sizes['resnet']}, resnet_width={sizes['resnet_width']}"
        )
    return HYBRIDS[sizes["resnet"]]


def _global_pool(sizes, facts):
    default = "token" if sizes["class_token"] else "avg"
    return sizes.get("pooling") or facts.get("pooling", default) or ""


def _arguments(sizes, facts, weights):
    """Arguments of timm's `create_model` that make the model of `write`."""
    positions = checkpoint.POSITIONS in weights
    activation, _ = checkpoint.constants(facts)
    height, width = sizes["patch_size"]
    return {
        "img_size": list(facts["image_size"]),
        "patch_size": height if height == width else [height, width],
        "in_chans": sizes["channels"],
        "embed_dim": sizes["hidden_dim"],
        "depth": sizes["num_layers"],
        "num_heads": sizes["num_heads"],
        "mlp_ratio": checkpoint.mlp_ratio(sizes["hidden_dim"], sizes["mlp_dim"]),
        "act_layer": next(name for name, ours in ACTIVATIONS.items() if ours == activation),
        "class_token": sizes["class_token"],
        "reg_tokens": sizes["num_registers"],
        "pos_embed": "learn" if positions else "none",
        "no_embed_class": positions and not facts.get("class_token_position", True),
        "qk_norm": sizes["qk_norm"],
        "init_values": 1e-5 if sizes["layer_scale"] else None,
        "fc_norm": bool(facts.get("norm_after_pool")),
        "global_pool": _global_pool(sizes, facts),
        "num_classes": sizes["classes"] or 0,
    }


def _preprocessing(facts, channels):
    """timm's names for how images are prepared, where the model knows it."""
    if facts is None:
        return {}
    return {
        "mean": np.broadcast_to(facts["mean"], channels).tolist(),
        "std": np.broadcast_to(facts["std"], channels).tolist(),
        "crop_pct": facts["crop_fraction"],
        "crop_mode": facts["crop_mode"],
        "interpolation": facts["resize_method"],
    }
