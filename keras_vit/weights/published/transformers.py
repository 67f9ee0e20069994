"""Twins in the names of transformers, at the Hugging Face Hub."""

from keras_vit.weights.published.entry import (
    FINE_TUNED,
    I21K_BARE,
    PILLOW,
    WeightEntry,
)

MB, GB = 10**6, 10**9

# (model, repository, revision, resolution, size as the repository shows it, its unit of rounding).
# Where the main branch has no safetensors, the revision is the one that Hugging Face's converter
# has proposed, which has. Repositories "-in21k" have no head; their pooler is the pre-logits layer.
ENTRIES = tuple(
    WeightEntry(
        model,
        "hf_orig_imagenet21k" + ("" if bare else f"_ft_imagenet_{side}"),
        f"hf://google/{repository}" + (f"@{revision}" if revision else ""),
        f"huggingface.co/google/{repository}, files",
        resolution=(side, side),
        preprocessing=PILLOW,
        origin="huggingface",
        pre_logits=bare,
        size=round(size),
        size_within=round(unit),
        **(I21K_BARE if bare else FINE_TUNED),
    )
    for model, repository, revision, side, size, unit, bare in (
        ("ViT_B16", "vit-base-patch16-224", "", 224, 346 * MB, MB, False),
        ("ViT_B16", "vit-base-patch16-384", "", 384, 347 * MB, MB, False),
        ("ViT_B32", "vit-base-patch32-384", "", 384, 353 * MB, MB, False),
        (
            "ViT_L16",
            "vit-large-patch16-224",
            "8041a8c7b0517e25d4cfa63f2e2e35b50b853386",
            224,
            1.22 * GB,
            0.01 * GB,
            False,
        ),
        (
            "ViT_L32",
            "vit-large-patch32-384",
            "7cb790d8aa73dc7882e7190b95f2dbde837abe21",
            384,
            1.23 * GB,
            0.01 * GB,
            False,
        ),
        ("ViT_B16", "vit-base-patch16-224-in21k", "", 224, 346 * MB, MB, True),
        ("ViT_B32", "vit-base-patch32-224-in21k", "", 224, 352 * MB, MB, True),
        ("ViT_L16", "vit-large-patch16-224-in21k", "", 224, 1.22 * GB, 0.01 * GB, True),
        (
            "ViT_L32",
            "vit-large-patch32-224-in21k",
            "1170e42b7c584b04363ac5ad6b246001e8ba9113",
            224,
            1.23 * GB,
            0.01 * GB,
            True,
        ),
        ("ViT_H14", "vit-huge-patch14-224-in21k", "", 224, 2.53 * GB, 0.01 * GB, True),
    )
)
