"""The `config.json` of timm: what each key says about a model, or why it is refused.

`architecture` names a function of timm, `model_args` are arguments that differ from what it sets,
and `pretrained_cfg` describes the images. Configurations of old lie flat, without `pretrained_cfg`.
"""

import re
from collections.abc import Mapping

from keras_vit.weights import image_facts

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "silu": "silu",
}
POOLINGS = ("token", "avg", "max", "map")

# Every argument of `timm.models.VisionTransformer` is in one of these four tables, or refused.
CONVERTED = ("num_heads", "act_layer", "no_embed_class", "img_size", "global_pool")
# What only some values of can be expressed here; None is timm's default.
FIXED = {
    "pool_include_prefix": (False,),
    "norm_layer": ("layernorm",),
    "embed_norm_layer": ("layernorm",),
    "mlp_layer": (),
    "attn_layer": ("attn",),
    "block_fn": (),
    "embed_layer": (),
}
# Told by names and shapes of the weights, where they belong to the model at all.
IN_THE_WEIGHTS = {
    "patch_size",
    "in_chans",
    "num_classes",
    "embed_dim",
    "depth",
    "mlp_ratio",
    "qkv_bias",
    "qk_norm",
    "scale_attn_norm",
    "scale_mlp_norm",
    "proj_bias",
    "init_values",
    "class_token",
    "pos_embed",
    "reg_tokens",
    "pre_norm",
    "final_norm",
    "fc_norm",
}
# Of training, of where and in which type to compute, and of images of several sizes.
IGNORED = {
    "drop_rate",
    "pos_drop_rate",
    "patch_drop_rate",
    "proj_drop_rate",
    "attn_drop_rate",
    "drop_path_rate",
    "weight_init",
    "fix_init",
    "device",
    "dtype",
    "dynamic_img_size",
    "dynamic_img_pad",
    "strict_img_size",
}
# Architectures that set an activation by themselves (timm 1.0.31).
TANH = re.compile(
    r"vit_(base_patch32|giantopt_patch16|so400m_patch16)_siglip_|vit_large_patch16_siglip_(gap_)?512"
)
QUICK = re.compile(r"_quickgelu_")


def configured(config: Mapping, classes: int | None) -> dict:
    """The facts in a `config.json`.

    Args:
        config: The file.
        classes: How many the classifier has; None without one, where no pooling and no class
            names belong to the weights.

    Raises:
        ValueError: for an argument that is unknown, or whose value has no counterpart here.
    """
    arguments = config.get("model_args") or {}
    _check_arguments(arguments)
    images = {**config, **(config.get("pretrained_cfg") or {})}
    facts = {
        "num_heads": arguments.get("num_heads"),
        "activation": _activation(config.get("architecture") or "", arguments.get("act_layer")),
        "image_size": _image_size(arguments.get("img_size") or images.get("input_size")),
        "preprocessing": image_facts.of_timm(images),
    }
    if "no_embed_class" in arguments:
        facts["class_token_position"] = not arguments["no_embed_class"]
    if classes is not None:
        facts["class_names"] = _class_names(images.get("label_names"), classes)
    facts = {name: value for name, value in facts.items() if value is not None}
    pooling = arguments.get("global_pool", config.get("global_pool"))
    if classes is not None and pooling not in (*POOLINGS, None):
        raise _refused("global_pool", pooling, f"a classifier can read {', '.join(POOLINGS)}")
    if pooling in (*POOLINGS, ""):
        facts["pooling"] = pooling or None
    return facts


def _check_arguments(arguments):
    for key, value in arguments.items():
        if key in FIXED:
            if value is not None and value not in FIXED[key]:
                known = ", ".join(map(repr, (None, *FIXED[key])))
                raise _refused(key, value, f"only {known} can be followed")
        elif key not in IN_THE_WEIGHTS | IGNORED and key not in CONVERTED:
            raise _refused(key, value, "the argument is unknown, so the model may differ from ours")


def _activation(architecture, layer):
    if layer is None:
        if TANH.match(architecture):
            return "gelu_tanh"
        return "quick_gelu" if QUICK.search(architecture) else None
    if layer not in ACTIVATIONS:
        raise _refused("act_layer", layer, f"known are {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[layer]


def _image_size(size):
    if not size:
        return None
    return (size, size) if isinstance(size, int) else tuple(size[-2:])


def _class_names(names, classes):
    if names and len(names) != classes:
        raise _refused("label_names", names, f"the classifier has {classes} classes")
    return tuple(names) if names else None


def _refused(key, value, why):
    return ValueError(
        "config.json must describe a Vision Transformer as keras_vit can build it. "
        f"Received: {key}={value!r}: {why}."
    )
