"""Twins in timm's names at the Hugging Face Hub, and what timm's author trained."""

from keras_vit.weights.published.entry import (
    CENTER_90,
    CENTER_100,
    FINE_TUNED,
    I1K,
    I21K,
    TIMM,
    TIMM_RESULTS,
    WeightEntry,
    measured,
)


def _timm(model, architecture, tag, kind, side, top1=None):
    return WeightEntry(
        model,
        _timm_name(tag, side),
        f"hf://timm/{architecture}_{side}.{tag}",
        TIMM,
        resolution=(side, side),
        preprocessing=CENTER_100 if side == 384 else CENTER_90,
        origin="timm",
        **measured(top1, TIMM_RESULTS),
        **kind,
    )


def _timm_name(tag, side):
    method, _, data = tag.partition("_")
    if data == "in1k":
        return f"timm_{method}_imagenet"
    return f"timm_{method}_imagenet21k" + (f"_ft_imagenet_{side}" if "ft" in data else "")


# (model, timm's architecture, top-1 at 224 and at 384; None if that was not published there).
AUGREG = (
    ("ViT_Ti16", "vit_tiny_patch16", 75.45, 78.44),
    ("ViT_S32", "vit_small_patch32", 76.01, 80.48),
    ("ViT_S16", "vit_small_patch16", 81.40, 83.81),
    ("ViT_B32", "vit_base_patch32", 80.73, 83.36),
    ("ViT_B16", "vit_base_patch16", 84.53, 86.01),
    ("ViT_B8", "vit_base_patch8", 85.80, None),
    ("ViT_L16", "vit_large_patch16", 85.86, 87.10),
    ("R_ViT_Ti16", "vit_tiny_r_s16_p8", 71.80, 75.96),
    ("R26_ViT_S32", "vit_small_r26_s32", 81.86, 84.07),
    ("R50_ViT_L32", "vit_large_r50_s32", 84.43, 86.19),
)

ENTRIES = (
    *(_timm(m, a, "augreg_in21k", I21K, 224) for m, a, _, _ in AUGREG),
    *(
        _timm(model, architecture, "augreg_in21k_ft_in1k", FINE_TUNED, side, top1)
        for model, architecture, *accuracies in AUGREG
        for side, top1 in zip((224, 384), accuracies, strict=True)
        if top1 is not None
    ),
    # Fine-tuned anew by timm's author.
    _timm("ViT_B16", "vit_base_patch16", "augreg2_in21k_ft_in1k", FINE_TUNED, 224, 85.11),
    _timm("ViT_B8", "vit_base_patch8", "augreg2_in21k_ft_in1k", FINE_TUNED, 224),
    *(
        _timm(model, architecture, "orig_in21k_ft_in1k", FINE_TUNED, side, top1)
        for model, architecture, side, top1 in (
            ("ViT_B16", "vit_base_patch16", 224, 81.79),
            ("ViT_B16", "vit_base_patch16", 384, 84.20),
            ("ViT_L32", "vit_large_patch32", 384, 81.51),
            ("R50_ViT_B16", "vit_base_r50_s16", 384, 84.98),
        )
    ),
    _timm("ViT_B16", "vit_base_patch16", "sam_in1k", I1K, 224, 80.24),
    _timm("ViT_B32", "vit_base_patch32", "sam_in1k", I1K, 224),
)
