"""The `config.json` of transformers: what each key says about a model, or why it is refused."""

from collections.abc import Mapping

MODELS = ("vit", "dinov2", "dinov2_with_registers", "vit-hybrid")

# Every key is in one of these four tables, or refused.

FACTS = {
    "hidden_size": "hidden_dim",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "mlp_dim",
    "num_channels": "channels",
    "num_register_tokens": "num_registers",
    "layer_norm_eps": "layer_norm_epsilon",
    "hidden_dropout_prob": "dropout_rate",
    "attention_probs_dropout_prob": "attention_dropout_rate",
    "drop_path_rate": "drop_path_rate",
}
CONVERTED = (  # read by `configured` itself
    "model_type",
    "hidden_act",
    "image_size",
    "patch_size",
    "mlp_ratio",
    "id2label",
    "pooler_output_size",
    "backbone_config",
)
# What only one value of can be expressed here.
FIXED = {
    "qkv_bias": True,
    "pooler_act": "tanh",
    "use_swiglu_ffn": False,
    "is_encoder_decoder": False,
    "is_decoder": False,
    "add_cross_attention": False,
    "chunk_size_feed_forward": 0,
    "pruned_heads": {},
    "quantization_config": None,
    "apply_layernorm": True,
    "use_timm_backbone": False,
    "backbone": None,
    "backbone_kwargs": None,
}
# The ResNet of a hybrid. It has besides the keys that every configuration has.
BACKBONE_FIXED = {
    "model_type": "bit",
    "layer_type": "bottleneck",
    "global_padding": "same",
    "embedding_dynamic_padding": True,
    "hidden_act": "relu",
    "num_groups": 32,
    "output_stride": 32,
    "width_factor": 1,
    "drop_path_rate": 0.0,
}
# What a ResNet has where its configuration is silent: not what a hybrid's has.
BACKBONE_DEFAULTS = {
    "layer_type": "preactivation",
    "global_padding": None,
    "embedding_dynamic_padding": False,
}
BACKBONE_SIZES = {"depths", "embedding_size", "hidden_sizes", "num_channels"}
IGNORED = {
    # Initialisation, losses and pre-training.
    "initializer_range",
    "layerscale_value",
    "encoder_stride",
    "use_mask_token",
    "use_pretrained_backbone",
    "problem_type",
    "finetuning_task",
    # Names, the inverse of `id2label`, and how many of them there are.
    "label2id",
    "num_labels",
    "_num_labels",
    "_name_or_path",
    "name_or_path",
    "_commit_hash",
    "architectures",
    "task_specific_params",
    # Which outputs of the same numbers to return, and how.
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "use_return_dict",
    "torchscript",
    "use_bfloat16",
    "use_cache",
    "out_features",
    "out_indices",
    "stage_names",
    "reshape_hidden_states",
    "tie_word_embeddings",
    "tie_encoder_decoder",
    "cross_attention_hidden_size",
    "backbone_featmap_shape",
    # Versions, and in which type and by which code to compute.
    "transformers_version",
    "dtype",
    "torch_dtype",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "attn_implementation",
    "_experts_implementation",
    "tf_legacy_loss",
    "auto_map",
    # Text generation, which configurations of version 4 carry for every model.
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_scores",
    "pad_token_id",
    "prefix",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "temperature",
    "tokenizer_class",
    "top_k",
    "top_p",
    "typical_p",
}
KNOWN_KEYS = {*FACTS, *CONVERTED, *FIXED, *IGNORED}
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def configured(config: Mapping) -> dict:
    """The facts in a `config.json`.

    Raises:
        ValueError: for a key that is unknown, or whose value has no counterpart here.
    """
    facts = {}
    for key, value in config.items():
        if key in FACTS:
            facts[FACTS[key]] = value
        elif key in FIXED:
            if value is not None and value != FIXED[key]:
                raise _refused(key, value, f"only {FIXED[key]!r} can be followed")
        elif key not in KNOWN_KEYS:
            raise _refused(key, value, "the key is unknown, so the model may differ from ours")
    return {**facts, **_converted(config)}


def _converted(config):
    facts = {}
    if config.get("model_type", "vit") not in MODELS:
        raise _refused("model_type", config["model_type"], f"known are {', '.join(MODELS)}")
    if "hidden_act" in config:
        if config["hidden_act"] not in ACTIVATIONS:
            raise _refused("hidden_act", config["hidden_act"], f"known are {list(ACTIVATIONS)}")
        facts["activation"] = ACTIVATIONS[config["hidden_act"]]
    for key in ("image_size", "patch_size"):
        if key in config:
            facts[key] = _pair(key, config[key])
    if "mlp_ratio" in config and "hidden_size" in config:
        facts["mlp_dim"] = int(config["hidden_size"] * config["mlp_ratio"])
    facts.update(_resnet(config.get("backbone_config") or {}))
    names = _class_names(config.get("id2label") or {})
    if names is not None:
        facts["class_names"] = names
    return facts


def _refused(key, value, why):
    return ValueError(
        f"config.json must describe a Vision Transformer as keras_vit can build it. "
        f"Received: {key}={value!r}: {why}."
    )


def _pair(key, value):
    sides = [value, value] if isinstance(value, int) else value
    if not isinstance(sides, (list, tuple)) or [type(side) for side in sides] != [int, int]:
        raise _refused(key, value, "it must be an integer or [height, width]")
    return tuple(sides)


def _resnet(backbone):
    """The facts in the `backbone_config` of a hybrid."""
    if backbone:
        backbone = {**BACKBONE_DEFAULTS, **backbone}
    for key, value in backbone.items():
        name, fixed = f"backbone_config.{key}", {**FIXED, **BACKBONE_FIXED}
        if key in fixed:
            plain = value.lower() if isinstance(value, str) else value
            if plain != fixed[key]:
                raise _refused(name, value, f"only {fixed[key]!r} can be followed")
        elif key not in BACKBONE_SIZES | IGNORED:
            raise _refused(name, value, "the key is unknown, so the ResNet may differ from ours")
    facts = {}
    if "depths" in backbone:
        facts["resnet"] = tuple(backbone["depths"])
    if "embedding_size" in backbone:
        facts["resnet_width"] = backbone["embedding_size"] / 64
    return facts


def _class_names(labels):
    """Names in the order of their indices; None if they are transformers' placeholders."""
    by_index = {int(index): name for index, name in labels.items()}
    if all(name == f"LABEL_{index}" for index, name in by_index.items()):
        return None
    if sorted(by_index) != list(range(len(by_index))):
        raise _refused("id2label", labels, "indices must count from 0 without a gap")
    return tuple(by_index[index] for index in range(len(by_index)))


def check_top(facts: dict, config: Mapping) -> None:
    """Holds a top, which may not be there, against what the configuration says of it."""
    size, pooler_size = facts["representation_size"], config.get("pooler_output_size")
    if size is not None and pooler_size not in (None, size):
        raise _refused("pooler_output_size", pooler_size, f"the pooler has {size} outputs")
    labels = config.get("id2label") or {}
    if facts["classes"] is None:
        facts.pop("class_names", None)  # of a head that is not there
    elif labels and len(labels) != facts["classes"]:
        raise _refused("id2label", labels, f"the classifier has {facts['classes']} classes")
