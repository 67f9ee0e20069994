"""Names in checkpoints of models that keras_vit does not have, and what they are, for errors."""

import re
from collections.abc import Iterable

# {pattern in a name: a sentence without its full stop}
OTHERS = {
    r"^norm_pre\.": "norm_pre is a norm before the first block, which CLIP models have",
    r"(^|\.)(visual|vision_model|resblocks)\.|^ln_pre\.": "These names are of a CLIP or SigLIP "
    "model's image tower: timm has converted many of those, under its own names",
    r"(^|\.)(text_model|text_projection|token_embedding|logit_scale)\b": "There is a tower for "
    "text beside that for images",
    r"\.mlp\.(w12|w1|w2|w3|weights_in|weights_out|fc1_g|fc1_x|gate_proj)\.": "These MLPs are gated "
    "(SwiGLU), as those of DINOv2 giant, DINOv3 and EVA-02",
    r"(^|\.)(dist_token|head_dist|distillation_token|distillation_classifier|cls_classifier)\b": (
        "A distillation token with a second head is what distilled DeiT models have"
    ),
    r"(^|[._])rope|\.periods$|\.freqs": "rope are rotary positions, which EVA-02, DINOv3 and newer "
    "models of timm have",
    r"(^|\.)storage_tokens$|\.bias_mask$": "These names are of a DINOv3 model",
    r"\.(q_bias|v_bias)$|relative_position_|rel_pos": "Biases by relative position are what BEiT, "
    "Swin and timm's relpos models have",
    r"^layers\.\d+\.(blocks|downsample)\.|\.attention\.self\.": "These names are of a Swin or BEiT "
    "model",
    r"\.(attns|ffns)\.\d+\.": "These blocks are of several branches in parallel",
    r"^pre_logits\.": "pre_logits is a layer that timm itself no longer has",
    r"(^|\.)encoder_layer_\d+\.|^conv_proj\.": "These names are torchvision's",
    r"^layer[1-4]\.\d+\.": "These names are of a ResNet of torchvision or timm",
    r"^(bit\.)?(embedder|encoder\.stages|stem|stages)\.": "These names are of a ResNet, ConvNeXt "
    "or the like: BiT ResNets are read from Google's .npz files",
    r"^(student|teacher)\b": "A student and a teacher are in one file: keep one of the two",
    r"(^|[._])(dino|ibot)_(head|loss)|^head\.(mlp|last_layer)\.": "There is the head of "
    "self-supervised training: drop it",
}


def sentences(names: Iterable[str]) -> list[str]:
    """What some of the names say about the model they are of, one sentence each."""
    names = list(names)
    return [f"{what}." for like, what in OTHERS.items() if any(re.search(like, n) for n in names)]
