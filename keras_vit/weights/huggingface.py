"""Checkpoints of transformers' ViT, ViTHybrid and DINOv2: `.safetensors` beside a `config.json`.

The names of a layer's parts differ between ViT, DINOv2 and the modules of transformers 5; the table
has those of ViT files, and `_canonical` brings the others to them. The name of the whole model
(`vit.`) is there if the file has a head, and absent if it is the bare model.

DINOv2 gives its registers no position: our table gets rows of zeros for them.
"""

import re
from collections.abc import Mapping

import numpy as np

from keras_vit.weights import checkpoint, image_facts, mapping
from keras_vit.weights.huggingface_config import ACTIVATIONS, MODELS, check_top, configured
from keras_vit.weights.lazy import shape_of
from keras_vit.weights.mapping import (
    CONVOLUTION,
    HEADS_BIAS,
    HEADS_IN,
    HEADS_OUT,
    Layout,
    Row,
    dense,
    norm,
    resnet,
)

FORMAT = "huggingface"


def _insert_register_rows(table, sizes):
    """(1, 1 + N, D) -> (1, 1 + R + N, D)."""
    registers = sizes["num_registers"]
    if not registers:
        return table
    zeros = np.zeros((1, registers, table.shape[-1]), table.dtype)
    return np.concatenate([table[:, :1], zeros, table[:, 1:]], axis=1)


# Written tables have had the rows folded into the registers before, see `write`.
POSITION_ROWS = Layout(_insert_register_rows, lambda table, sizes: table)

BLOCK, LAYER = "block_{i}", "encoder.layer.{i}"
PROJECTIONS = LAYER + ".attention.attention"
RESNET = "embeddings.patch_embeddings.backbone.bit"
BOTTLENECK = RESNET + ".encoder.stages.{s0}.layers.{u0}"
SHORTCUT = RESNET + ".encoder.stages.{s0}.layers.0.downsample"


def _projection(name):
    return dense(f"{BLOCK}/attention/{name}", f"{PROJECTIONS}.{name}", HEADS_IN, HEADS_BIAS)


TABLE = {
    **resnet(f"{RESNET}.embedder.convolution", f"{RESNET}.embedder.norm", BOTTLENECK, SHORTCUT),
    "patches": dense("patch_embedding", "embeddings.patch_embeddings.projection", CONVOLUTION),
    "class_token": (Row("class_token/token", "embeddings.cls_token"),),
    "registers": (Row("register_tokens/tokens", "embeddings.register_tokens"),),
    "positions": (Row(checkpoint.POSITIONS, "embeddings.position_embeddings", POSITION_ROWS),),
    "blocks": (
        *norm(f"{BLOCK}/attention_norm", f"{LAYER}.layernorm_before"),
        *_projection("query"),
        *_projection("key"),
        *_projection("value"),
        *dense(f"{BLOCK}/attention/output", f"{LAYER}.attention.output.dense", HEADS_OUT),
        *norm(f"{BLOCK}/mlp_norm", f"{LAYER}.layernorm_after"),
        *dense(f"{BLOCK}/mlp/hidden", f"{LAYER}.intermediate.dense"),
        *dense(f"{BLOCK}/mlp/output", f"{LAYER}.output.dense"),
    ),
    "layer_scale": (
        Row(f"{BLOCK}/attention_scale/gamma", f"{LAYER}.layer_scale1.lambda1"),
        Row(f"{BLOCK}/mlp_scale/gamma", f"{LAYER}.layer_scale2.lambda1"),
    ),
    "norm": norm("norm", "layernorm"),
    "pre_logits": dense("pre_logits", "pooler.dense"),
    "head": dense("head", "classifier"),
}
REQUIRED = ("patches", "class_token", "positions", "blocks", "norm")

# Parts of a layer: other names, and the table's.
DINOV2_PARTS = {
    "norm1": "layernorm_before",
    "norm2": "layernorm_after",
    "mlp.fc1": "intermediate.dense",
    "mlp.fc2": "output.dense",
}
MODULE_PARTS = {
    "attention.q_proj": "attention.attention.query",
    "attention.k_proj": "attention.attention.key",
    "attention.v_proj": "attention.attention.value",
    "attention.o_proj": "attention.output.dense",
}
IN_LAYER = re.compile(r"(?:encoder\.layer|layers)\.(\d+)\.(.+)")

UNUSED = {
    r"^embeddings\.mask_token$": "stands for masked patches in pre-training",
    r"^decoder\.": "reconstructs masked patches in pre-training",
    r"(^|\.)num_batches_tracked$": "counts the batches of a batch normalisation",
}


def read(
    arrays: Mapping[str, np.ndarray],
    config: Mapping | None = None,
    *,
    preprocessor: Mapping | None = None,
    num_heads: int | None = None,
    metadata: Mapping | None = None,
):
    """Reads a checkpoint in Hugging Face's names.

    Args:
        arrays: Arrays by key; they may be read lazily.
        config: The `config.json`. Without it the origin's constants are taken.
        preprocessor: The `preprocessor_config.json`, if there is one.
        num_heads: Heads of every attention layer, where there is no `config`.
        metadata: What `checkpoint.record` gave when keras_vit wrote the file.

    Returns:
        A `checkpoint.Checkpoint`.

    Raises:
        ValueError: if a key is missing or unknown (all of them are listed), if a key of `config`
            or `preprocessor` cannot be followed, or if the number of heads is unknown.
    """
    said = {} if config is None else configured(config)
    names, unused = _canonical(arrays)
    sources = {name: mapping.Source(key) for name, key in names.items()}
    try:
        matched = mapping.match(TABLE, REQUIRED, sources, _repeats(sources))
    except mapping.Unmatched as error:
        raise error.explained("Hugging Face's", sources) from None

    recorded, grid = checkpoint.recorded_facts(metadata)
    given = {} if num_heads is None else {"num_heads": num_heads}
    width = shape_of(arrays, sources["layernorm.weight"].key)[0]
    heads = _num_heads({**said, **recorded, **given}, width)
    registers = sources.get("embeddings.register_tokens")
    sizes = {
        "num_heads": heads,
        "num_registers": shape_of(arrays, registers.key)[1] if registers else 0,
    }
    weights = mapping.lazy_weights(matched, sources, arrays, sizes)

    found = checkpoint.facts_from_weights(weights)
    found.update(position_embedding="learned", norm_after_pool=False, class_token_position=True)
    facts = checkpoint.merge_facts(
        {"origin": "huggingface", "pooling": "token"},
        **{"weights": found, "arguments": given, "config.json": said, "metadata": recorded},
    )
    check_top(facts, config or {})
    if preprocessor is not None:
        facts.setdefault("preprocessing", image_facts.of_transformers(preprocessor))
    prefix = int(found["class_token"]) + found["num_registers"]
    return checkpoint.assemble(
        weights, facts, unused, {prefix}, grid or checkpoint.grid_of_size(facts)
    )


def write(weights: Mapping[str, np.ndarray], facts: Mapping) -> dict[str, np.ndarray]:
    """Names and lays out weights as transformers does.

    The model is a ViTForImageClassification with a head and a ViTModel without one; with layer
    scale it is a Dinov2Model, with registers a Dinov2WithRegistersModel.

    Args:
        weights: Arrays by our variable path.
        facts: The fields of the model's spec.

    Returns:
        Arrays by key, for `safetensors.write`.

    Raises:
        ValueError: if the format cannot express the model.
    """
    _refuse(weights, facts)
    model_type = _model_type(weights)
    if "register_tokens/tokens" in weights:
        stop = 1 + shape_of(weights, "register_tokens/tokens")[1]
        weights = checkpoint.fold_prefix_positions(
            weights, {"register_tokens/tokens": slice(1, stop)}
        )
    arrays = mapping.foreign_arrays(TABLE, REQUIRED, weights, FORMAT)
    if model_type == "vit":
        has_head = "head/kernel" in weights
        return {_with_model_key(key, has_head): array for key, array in arrays.items()}
    arrays = {_dinov2_name(key): array for key, array in arrays.items()}
    # Unused in the forward pass, but the model has it and would report it missing.
    hidden_dim = shape_of(weights, "norm/gamma")[0]
    arrays["embeddings.mask_token"] = np.zeros((1, hidden_dim), np.float32)
    return arrays


def config(weights: Mapping[str, np.ndarray], facts: Mapping) -> dict:
    """The `config.json` with which transformers builds the model of `write`.

    Args:
        weights: Arrays by our variable path.
        facts: The fields of the model's spec; `image_size` is among them.
    """
    _refuse(weights, facts)
    sizes, model_type = checkpoint.facts_from_weights(weights), _model_type(weights)
    activation, epsilon = checkpoint.constants(facts)
    hidden_act = next(name for name, ours in ACTIVATIONS.items() if ours == activation)
    return {
        "architectures": [_architecture(model_type, sizes)],
        "model_type": model_type,
        "hidden_size": sizes["hidden_dim"],
        "num_hidden_layers": sizes["num_layers"],
        "num_attention_heads": sizes["num_heads"],
        "num_channels": sizes["channels"],
        "image_size": _side(facts["image_size"]),
        "patch_size": _side(sizes["patch_size"]),
        "hidden_act": hidden_act,
        "layer_norm_eps": epsilon,
        "hidden_dropout_prob": facts.get("dropout_rate", 0.0),
        "attention_probs_dropout_prob": facts.get("attention_dropout_rate", 0.0),
        "qkv_bias": True,
        "dtype": "float32",
        **_labels(sizes["classes"], facts.get("class_names")),
        **_model_config(model_type, sizes, facts),
    }


# Reading.


def _canonical(arrays):
    """({name as in the table: key}, {unused key: reason})."""
    names = mapping.rename(mapping.strip_wrappers(arrays), _spelled)
    unused = {
        key: reason
        for pattern, reason in UNUSED.items()
        for name, key in names.items()
        if re.search(pattern, name)
    }
    if "classifier.weight" in names:
        unused.update(_unused_beside_classifier(names, arrays))
    return {name: key for name, key in names.items() if key not in unused}, unused


def _unused_beside_classifier(names, arrays):
    """Classification models have no pooler, and DINOv2's has a classifier of another kind."""
    unused = {
        key: "a pooler, which classification models do not read"
        for name, key in names.items()
        if name.startswith("pooler.")
    }
    inputs = shape_of(arrays, names["classifier.weight"])[1]
    if "layernorm.weight" in names and inputs == 2 * shape_of(arrays, names["layernorm.weight"])[0]:
        for name in ("classifier.weight", "classifier.bias"):
            if name in names:
                unused[names[name]] = (
                    "reads class token and mean of the patches together, as no pooling here does"
                )
    return unused


def _spelled(name):
    prefix = next((f"{model}." for model in MODELS if name.startswith(f"{model}.")), "")
    name = name.removeprefix(prefix)
    layer = IN_LAYER.fullmatch(name)
    if layer is None:
        return name
    return f"encoder.layer.{layer[1]}.{_part(layer[2])}"


def _part(name):
    for other, ours in {**DINOV2_PARTS, **MODULE_PARTS}.items():
        if name.startswith(f"{other}."):
            return ours + name.removeprefix(other)
    return name


def _repeats(names):
    return mapping.Repeats(
        mapping.count(names, r"encoder\.layer\.(\d+)\."),
        mapping.count_units(
            names, re.escape(RESNET) + r"\.encoder\.stages\.(\d+)\.layers\.(\d+)\.", first=0
        ),
    )


def _num_heads(said, width):
    heads = said.get("num_heads")
    if heads is None:
        raise ValueError(
            "A checkpoint in Hugging Face's names tells how many heads its attention has in its "
            f"config.json: read the folder, or pass `num_heads`. Received: num_heads=None, "
            f"hidden_dim={width}"
        )
    return checkpoint.checked_heads(heads, width)


# Writing.


def _refuse(weights, facts):
    activation, _ = checkpoint.constants(facts)
    sizes = checkpoint.facts_from_weights(weights)
    has_head, has_scale = "head/kernel" in weights, "block_0/mlp_scale/gamma" in weights
    pooling = facts.get("pooling", "token")
    reasons = {
        "another position embedding than 'learned'": facts.get("position_embedding")
        not in (None, "learned"),
        "positions added to every layer": facts.get("position_injection") not in (None, "stem"),
        "a model without class token": "class_token/token" not in weights,
        "a class token without position": not facts.get("class_token_position", True),
        f"pooling by {pooling!r}": pooling not in (None, "token"),
        "a norm after pooling": bool(facts.get("norm_after_pool")),
        "query and key normalisation": "block_0/attention/query_norm/gamma" in weights,
        "registers without layer scale": "register_tokens/tokens" in weights and not has_scale,
        "layer scale with a classifier that reads the class token": has_scale and has_head,
        "layer scale with pre-logits": has_scale and "pre_logits/kernel" in weights,
        # Its configuration has an integer for the ratio of the two.
        "layer scale with an MLP that is no multiple as wide as the model": (
            has_scale and sizes["mlp_dim"] % sizes["hidden_dim"] != 0
        ),
        "pre-logits below a classifier": has_head and "pre_logits/kernel" in weights,
        f"the activation {activation!r}": activation not in ACTIVATIONS.values(),
        "a ResNet below": "stem_conv/kernel" in weights,
    }
    checkpoint.refuse(FORMAT, reasons, facts)


def _model_type(weights):
    if "register_tokens/tokens" in weights:
        return "dinov2_with_registers"
    return "dinov2" if "block_0/mlp_scale/gamma" in weights else "vit"


def _architecture(model_type, sizes):
    if model_type == "vit":
        return "ViTModel" if sizes["classes"] is None else "ViTForImageClassification"
    return {"dinov2": "Dinov2Model"}.get(model_type, "Dinov2WithRegistersModel")


def _with_model_key(key, has_head):
    return f"vit.{key}" if has_head and not key.startswith("classifier.") else key


def _dinov2_name(key):
    layer = IN_LAYER.fullmatch(key)
    if layer is None:
        return key
    for theirs, ours in DINOV2_PARTS.items():
        if layer[2].startswith(f"{ours}."):
            return f"encoder.layer.{layer[1]}.{theirs}{layer[2].removeprefix(ours)}"
    return key


def _side(size):
    return size[0] if size[0] == size[1] else list(size)


def _labels(classes, names):
    if classes is None:
        return {}
    names = names or [f"LABEL_{index}" for index in range(classes)]
    return {
        "id2label": {str(index): name for index, name in enumerate(names)},
        "label2id": {name: index for index, name in enumerate(names)},
    }


def _model_config(model_type, sizes, facts):
    """The keys that only some of the models have."""
    if model_type == "vit":
        pooler = {"pooler_act": "tanh", "pooler_output_size": sizes["representation_size"]}
        return {
            "intermediate_size": sizes["mlp_dim"],
            **(pooler if sizes["representation_size"] else {}),
        }
    registers = {"num_register_tokens": sizes["num_registers"]} if sizes["num_registers"] else {}
    return {
        "mlp_ratio": sizes["mlp_dim"] // sizes["hidden_dim"],
        "drop_path_rate": facts.get("drop_path_rate", 0.0),
        "use_swiglu_ffn": False,
        **registers,
    }
