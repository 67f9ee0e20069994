"""Checkpoints of models that keras_vit has not: each is refused for what it is."""

import numpy as np
import pytest
from foreign_weights import golden_arrays

from keras_vit.weights import files, huggingface, timm

HEADS = 3


def changed(name, add=(), remove=(), rename=()):
    """The keys of a golden with some added, removed or renamed."""
    arrays = {k: a for k, a in golden_arrays(name).items() if not any(r in k for r in remove)}
    for old, new in rename:
        arrays = {key.replace(old, new): array for key, array in arrays.items()}
    return {**arrays, **{key: np.zeros((1, 4), "float32") for key in add}}


BLOCK = "blocks.0"
TIMM = {
    "CLIP": ({"add": ["norm_pre.weight", "norm_pre.bias"], "remove": ["proj.bias"]}, "CLIP"),
    "distilled DeiT": ({"add": ["dist_token", "head_dist.weight"]}, "distillation.*DeiT"),
    "gated MLP": ({"rename": [("mlp.fc1", "mlp.w12"), ("mlp.fc2", "mlp.w3")]}, "SwiGLU"),
    "EVA-02": (
        {
            "remove": ["attn.qkv"],
            "add": [f"{BLOCK}.attn.q_proj.weight", "rope.periods", f"{BLOCK}.mlp.fc1_g.weight"],
        },
        "SwiGLU.*rotary",
    ),
    "DINOv3": ({"add": ["storage_tokens", f"{BLOCK}.attn.qkv.bias_mask"]}, "DINOv3"),
    "DINOv3 of timm": ({"add": ["rope_embed.periods"]}, "rotary"),
    "BEiT": ({"add": [f"{BLOCK}.attn.relative_position_bias_table"]}, "BEiT"),
    "relpos": ({"add": [f"{BLOCK}.attn.rel_pos.mlp.fc1.weight"]}, "relative position"),
    "Swin": ({"rename": [("blocks.0.", "layers.0.blocks.0.")]}, "Swin"),
    "parallel blocks": ({"rename": [(".attn.", ".attns.0.")]}, "parallel"),
    "an old hidden layer": ({"add": ["pre_logits.fc.weight"]}, "pre_logits"),
    "two models": ({"add": ["student.cls_token", "teacher.cls_token"]}, "student and a teacher"),
    "a head of DINO": ({"add": ["head.mlp.0.weight"]}, "self-supervised"),
}


@pytest.mark.parametrize("family", TIMM)
def test_names_like_timms(family):
    changes, what = TIMM[family]
    with pytest.raises(ValueError, match=rf"(?s)timm's names.*Unknown: .*{what}"):
        timm.read(changed("timm_vit_token", **changes), num_heads=HEADS)


def test_the_decoder_of_a_masked_autoencoder_is_not_of_the_model():
    extra = ["mask_token", "decoder_embed.weight", "decoder_pos_embed", "decoder_blocks.0.x.bias"]
    checkpoint = timm.read(changed("timm_vit_token", add=extra), num_heads=HEADS)
    assert sorted(checkpoint.unused) == sorted(extra)


ELSEWHERE = {
    "torchvision": (["conv_proj.weight", "encoder.layers.encoder_layer_0.ln_1.weight"], "torchv"),
    "torchvision's ResNet": (["conv1.weight", "layer1.0.conv1.weight", "fc.weight"], "ResNet"),
    "OpenAI's CLIP": (["visual.conv1.weight", "visual.transformer.resblocks.0.x"], "CLIP"),
    "transformers' SigLIP": (
        ["vision_model.embeddings.patch_embedding.weight", "text_model.embeddings.x.weight"],
        "SigLIP.*text",
    ),
    "timm's BiT": (["stem.conv.weight", "stages.0.blocks.0.conv1.weight"], "BiT ResNets are read"),
    "transformers' BiT": (["bit.embedder.convolution.weight"], "BiT ResNets are read"),
    "DINOv3 of transformers": (
        ["embeddings.patch_embeddings.weight", "rope_embeddings.inv_freq", "layer.0.mlp.x"],
        "rotary",
    ),
}


@pytest.mark.parametrize("family", ELSEWHERE)
def test_names_like_nobodys_here(family):
    keys, what = ELSEWHERE[family]
    with pytest.raises(ValueError, match=f"Received: .*{what}"):
        files.detect_format(keys)


# transformers: the configuration names the family, and the names do where there is none.

CONFIG = {"model_type": "vit", "num_attention_heads": 3, "hidden_size": 48}


@pytest.mark.parametrize("family", ["deit", "vit_mae", "vit_msn", "beit", "ijepa", "swin"])
def test_other_families_of_transformers(family):
    with pytest.raises(ValueError, match=f"Received: model_type='{family}'.*known are vit"):
        huggingface.read(golden_arrays("hf_vit"), {**CONFIG, "model_type": family})


def test_a_distilled_deit_of_transformers_without_configuration():
    arrays = changed(
        "hf_vit", add=["vit.embeddings.distillation_token", "distillation_classifier.weight"]
    )
    with pytest.raises(ValueError, match="Unknown: .*distillation_token.*DeiT"):
        huggingface.read(arrays, num_heads=HEADS)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_act", "gelu_10"),
        ("qkv_bias", False),
        ("pooler_act", "relu"),
        ("num_channels", 4),
        ("image_size", [32]),
        ("image_size", "32"),
        ("image_size", [32, 40]),
        ("patch_size", [8, 8, 8]),
        ("use_mean_pooling", True),
        ("num_register_tokens", 4),
        ("hidden_size", 49),
    ],
)
def test_configurations_that_cannot_be_followed(key, value):
    with pytest.raises(ValueError, match=r"Received: .*|grid of 4 x 5"):
        huggingface.read(golden_arrays("hf_vit"), {**CONFIG, key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [("encoder_stride", 16), ("image_size", 32), ("image_size", [32, 32]), ("num_labels", 7)],
)
def test_configurations_that_can(key, value):
    checkpoint = huggingface.read(golden_arrays("hf_vit"), {**CONFIG, key: value})
    assert checkpoint.position_grid == (4, 4)


# The hybrid of transformers has the weights of timm's under other names, and timm's constants.

RESNET = "vit.embeddings.patch_embeddings.backbone.bit"
RENAMED = (
    (r"patch_embed.backbone.stem.conv", f"{RESNET}.embedder.convolution"),
    (r"patch_embed.backbone.stem.norm", f"{RESNET}.embedder.norm"),
    (r"patch_embed.backbone.stages", f"{RESNET}.encoder.stages"),
)
HYBRID = {
    "model_type": "vit-hybrid",
    "num_attention_heads": 3,
    "layer_norm_eps": 1e-6,
    "use_timm_backbone": False,
    "backbone_featmap_shape": [1, 256, 4, 4],
}
BACKBONE = {
    "model_type": "bit",
    "layer_type": "bottleneck",
    "global_padding": "same",
    "embedding_dynamic_padding": True,
    "hidden_act": "relu",
    "num_groups": 32,
    "out_features": ["stage2"],
    "hidden_sizes": [256, 512],
}


def hybrid():
    """(timm's hybrid golden in transformers' names, its weights under our paths, its spec)."""
    from golden_resnets import load_hybrid

    spec, weights, _ = load_hybrid("timm_hybrid")
    arrays = {}
    for key, array in golden_arrays("timm_hybrid").items():
        if key.startswith("patch_embed.backbone"):
            for old, new in RENAMED:
                key = key.replace(old, new)
            arrays[key.replace(".blocks.", ".layers.")] = array
    plain = {p: w for p, w in weights.items() if not p.startswith("st")}
    facts = {**spec, "origin": "huggingface", "resnet": None}
    return {**arrays, **huggingface.write(plain, facts)}, weights, spec


def backbone_config(spec):
    return {
        **BACKBONE,
        "depths": list(spec["resnet"]),
        "embedding_size": int(64 * spec["resnet_width"]),
    }


def test_a_hybrid_of_transformers():
    arrays, weights, spec = hybrid()
    config = {**HYBRID, "backbone_config": backbone_config(spec)}
    checkpoint = huggingface.read(arrays, config)
    assert sorted(checkpoint.weights) == sorted(weights)
    for path, value in weights.items():
        np.testing.assert_array_equal(checkpoint.weights[path], value, err_msg=path)
    assert checkpoint.facts["resnet"] == spec["resnet"]
    assert checkpoint.facts["origin"] == "huggingface"
    side = int((weights["position_embedding/table"].shape[1] - 1) ** 0.5)
    assert checkpoint.position_grid == (side, side)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("layer_type", "preactivation"),
        ("global_padding", None),
        ("global_padding", "VALID"),
        ("num_groups", 16),
        ("depths", [1, 1, 1]),
        ("surprise", 1),
    ],
)
def test_other_resnets_below_are_refused(key, value):
    arrays, _, spec = hybrid()
    config = {**HYBRID, "backbone_config": {**backbone_config(spec), key: value}}
    with pytest.raises(ValueError, match=f"Received: .*({key}|resnet)"):
        huggingface.read(arrays, config)
