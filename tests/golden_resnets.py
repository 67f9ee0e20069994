"""The golden hybrids and BiT ResNets in the library's variable paths; see `golden_weights`."""

import re

import golden_weights
from golden_weights import Golden, golden_file, read_config, read_expected
from reference_vit import make_spec

HYBRID_GOLDENS = ("hybrid_stem", "hybrid_stages", "timm_hybrid")


def _rename(source, rules):
    """Takes out of `source` what any of the `{pattern: replacement}` matches, renamed."""
    target = {}
    for key in list(source):
        for pattern, replacement in rules.items():
            if re.fullmatch(pattern, key):
                target[re.sub(pattern, replacement, key)] = source.pop(key)
    return target


GOOGLE_STEM = {
    r"conv_root/kernel": r"stem_conv/kernel",
    r"gn_root/(\w+)": r"stem_norm/\1",
    r"block(\d+)/unit(\d+)/(conv\w+)/kernel": r"stage_\1_unit_\2/\3/kernel",
    r"block(\d+)/unit(\d+)/gn(\d)/(\w+)": r"stage_\1_unit_\2/norm\3/\4",
    r"block(\d+)/unit(\d+)/gn_proj/(\w+)": r"stage_\1_unit_\2/norm_proj/\3",
}
BACKBONE = r"patch_embed\.backbone\."
TIMM_STEM = {
    BACKBONE + r"stem\.conv\.weight": r"stem_conv/kernel",
    BACKBONE + r"stem\.norm\.(\w+)": r"stem_norm/\1",
    BACKBONE + r"stages\.(\d)\.blocks\.(\d)\.(conv\d)\.weight": r"stage_\1_unit_\2/\3/kernel",
    BACKBONE + r"stages\.(\d)\.blocks\.(\d)\.(norm\d)\.(\w+)": r"stage_\1_unit_\2/\3/\4",
    BACKBONE + r"stages\.(\d)\.blocks\.(\d)\.downsample\.(conv|norm)\.(\w+)": (
        r"stage_\1_unit_\2/\3_proj/\4"
    ),
}


def _google_stem(source):
    weights = _rename(source, GOOGLE_STEM)
    return {
        path.replace("/scale", "/gamma").replace("/bias", "/beta"): (
            value if path.endswith("kernel") else value.reshape(-1)
        )
        for path, value in weights.items()
    }


def _timm_stem(source):
    weights = {}
    for path, value in _rename(source, TIMM_STEM).items():
        if path.startswith("stage"):  # they count from zero
            path = re.sub(r"\d+", lambda number: str(int(number[0]) + 1), path, count=2)
        if value.ndim == 4:
            path, value = path.replace("weight", "kernel"), value.transpose(2, 3, 1, 0)
        weights[path.replace("/weight", "/gamma").replace("/bias", "/beta")] = value
    return weights


def load_hybrid(name):
    """One of HYBRID_GOLDENS: its spec, its weights under our paths, its expected outputs."""
    config = read_config(name)
    patch_size = config["patch_size"]
    spec = make_spec(
        image_size=tuple(config["image_size"]),
        patch_size=(patch_size, patch_size) if isinstance(patch_size, int) else tuple(patch_size),
        num_layers=config["depth"],
        num_heads=config["num_heads"],
        hidden_dim=config["hidden_dim"],
        mlp_dim=config["mlp_dim"],
        classes=config["num_classes"],
        resnet=tuple(config["resnet"]["num_layers"]),
        resnet_width=config["resnet"]["width_factor"],
        origin="timm" if name.startswith("timm_") else "google",
    )
    if spec["origin"] == "timm":
        source = golden_weights.read_safetensors(golden_file(name))
        weights = _timm_stem(source)
        weights |= golden_weights.timm_weights(source, spec["num_layers"], spec["num_heads"])
    else:
        source = golden_weights.read_npz(golden_file(name))
        weights = _google_stem(source)
        naming = config["naming"]
        weights |= golden_weights.google_weights(source, spec["num_layers"], naming)
    return Golden(spec, weights, read_expected(name))


BIT = {
    r"resnet/root_block/standardized_conv2d/kernel": r"stem_conv/kernel",
    r"resnet/block(\d)/unit0(\d)/a/proj/standardized_conv2d/kernel": (
        r"stage_\1_unit_\2/conv_proj/kernel"
    ),
    r"resnet/block(\d)/unit0(\d)/(\w)/standardized_conv2d/kernel": (
        r"stage_\1_unit_\2/conv_\3/kernel"
    ),
    r"resnet/block(\d)/unit0(\d)/(\w)/group_norm/(\w+)": r"stage_\1_unit_\2/norm_\3/\4",
    r"resnet/group_norm/(\w+)": r"norm/\1",
    r"resnet/head/conv2d/(\w+)": r"head/\1",
}


def load_bit():
    """The BiT ResNet: arguments of `keras_vit.BiTResNet`, weights, expected outputs."""
    config = read_config("bit_resnet")
    source = golden_weights.read_npz(golden_file("bit_resnet"))
    weights = {}
    for path, value in _rename(source, BIT).items():
        path = re.sub(r"_([abc])/", lambda unit: f"{' abc'.index(unit[1])}/", path)
        weights[path] = value[0, 0] if path == "head/kernel" else value
    assert not source, sorted(source)
    arguments = {
        "image_size": tuple(config["image_size"]),
        "num_layers": tuple(config["depth"]),
        "width": config["width_factor"],
        "classes": config["num_classes"],
    }
    return Golden(arguments, weights, read_expected("bit_resnet"))
