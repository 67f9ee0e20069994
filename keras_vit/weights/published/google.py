"""The Vision Transformers and hybrids that Google publishes."""

from keras_vit.weights.published.entry import (
    FINE_TUNED,
    I1K,
    I21K,
    TIMM,
    TIMM_RESULTS,
    google_file,
    measured,
    rounded_mib,
)

GOOGLE = "https://storage.googleapis.com/vit_models"
README = "google-research/vision_transformer, README.md"
LISTING = "google-research/vision_transformer, listing of the bucket in vit_jax.ipynb"
PAPER = "arXiv 2010.11929, table 5, for a model of this kind"
BIG_VISION = "google-research/big_vision, models/vit.py"

# (model, file, whether it has pre-logits, MiB). All at 224, and all with a head of zeros (issues 10
# and 32 of google-research/vision_transformer). Files with a twin at the Hub, where the layer is
# the pooler, have it, and R50+ViT-B_16 by its published size.
ORIGINAL = tuple(
    google_file(
        model,
        "orig_imagenet21k",
        f"{GOOGLE}/imagenet21k/{file}",
        I21K,
        224,
        LISTING,
        zero_head=True,
        pre_logits=pre_logits,
        **rounded_mib(mib, 0.1),
    )
    for model, file, pre_logits, mib in (
        ("ViT_B8", "ViT-B_8", None, None),
        ("ViT_B16", "ViT-B_16", True, 393.7),
        ("ViT_B32", "ViT-B_32", True, None),
        ("ViT_L16", "ViT-L_16", True, None),
        ("ViT_L32", "ViT-L_32", True, None),
        ("ViT_H14", "ViT-H_14", True, None),
        ("R26_ViT_B32", "R26+ViT-B_32", None, None),
        ("R50_ViT_B16", "R50+ViT-B_16", True, None),
        ("R50_ViT_L32", "R50+ViT-L_32", None, None),
    )
)

# (model, file, resolution, top-1, its source). The README gives the accuracy of the "-224" files;
# timm has measured some of the others.
ORIGINAL_FINE_TUNED = tuple(
    google_file(
        model,
        f"orig_imagenet21k_ft_imagenet_{side}",
        f"{GOOGLE}/imagenet21k+imagenet2012/{file}",
        FINE_TUNED,
        side,
        LISTING,
        **measured(top1, source),
    )
    for model, file, side, top1, source in (
        ("ViT_B16", "ViT-B_16-224", 224, 81.2, README),
        ("ViT_B16", "ViT-B_16", 384, 84.20, TIMM_RESULTS),
        ("ViT_B32", "ViT-B_32", 384, 81.28, PAPER),
        ("ViT_L16", "ViT-L_16-224", 224, 82.7, README),
        ("ViT_L16", "ViT-L_16", 384, 85.15, PAPER),
        ("ViT_L32", "ViT-L_32", 384, 81.51, TIMM_RESULTS),
        ("R50_ViT_B16", "R50+ViT-B_16", 384, 84.98, TIMM_RESULTS),
    )
)

# The checkpoints that the README recommends: (model, stem of the file, MiB that the README states
# for it, learning rate of fine-tuning at 384, its top-1). Fine-tuned files append the learning rate
# and the resolution to the name of what they started from.
RECOMMENDED = (
    ("ViT_L16", "L_16", "aug_strong1-wd_0.1-do_0.0-sd_0.0", 1243, "0.01", 85.59),
    ("ViT_B16", "B_16", "aug_medium1-wd_0.1-do_0.0-sd_0.0", 391, "0.03", 85.49),
    ("ViT_S16", "S_16", "aug_light1-wd_0.03-do_0.0-sd_0.0", 115, "0.03", 83.73),
    ("R50_ViT_L32", "R50_L_32", "aug_medium1-wd_0.1-do_0.1-sd_0.1", 1337, "0.01", 85.99),
    ("R26_ViT_S32", "R26_S_32", "aug_light1-wd_0.1-do_0.0-sd_0.0", 170, "0.01", 83.85),
    ("ViT_Ti16", "Ti_16", "aug_none-wd_0.03-do_0.0-sd_0.0", 37, "0.03", 78.22),
    ("ViT_B32", "B_32", "aug_light1-wd_0.1-do_0.0-sd_0.0", 398, "0.01", 83.59),
    ("ViT_S32", "S_32", "aug_none-wd_0.1-do_0.0-sd_0.0", 118, "0.01", 79.58),
    ("R_ViT_Ti16", "R_Ti_16", "aug_none-wd_0.03-do_0.0-sd_0.0", 40, "0.03", 75.40),
)

# For 224 the README names none. timm's author has chosen one for each model, some of them
# fine-tuned from another checkpoint than the one above, and measured it (with exact GELU, bicubic
# resizing and a crop of 0.9).
CHOSEN_AT_224 = (
    ("ViT_Ti16", "Ti_16", "aug_none-wd_0.03-do_0.0-sd_0.0", "0.03", 75.45),
    ("ViT_S32", "S_32", "aug_light1-wd_0.03-do_0.0-sd_0.0", "0.03", 76.01),
    ("ViT_S16", "S_16", "aug_light1-wd_0.03-do_0.0-sd_0.0", "0.03", 81.40),
    ("ViT_B32", "B_32", "aug_medium1-wd_0.03-do_0.0-sd_0.0", "0.03", 80.73),
    ("ViT_B16", "B_16", "aug_medium1-wd_0.1-do_0.0-sd_0.0", "0.01", 84.53),
    ("ViT_B8", "B_8", "aug_medium1-wd_0.1-do_0.0-sd_0.0", "0.01", 85.80),
    ("ViT_L16", "L_16", "aug_medium1-wd_0.1-do_0.1-sd_0.1", "0.01", 85.86),
    ("R_ViT_Ti16", "R_Ti_16", "aug_none-wd_0.03-do_0.0-sd_0.0", "0.03", 71.80),
    ("R26_ViT_S32", "R26_S_32", "aug_light0-wd_0.03-do_0.1-sd_0.1", "0.03", 81.86),
    ("R50_ViT_L32", "R50_L_32", "aug_medium1-wd_0.1-do_0.1-sd_0.1", "0.01", 84.43),
)


def _augreg(model, kind, stem, recipe, source, rate=None, side=224, **facts):
    fine_tuned = rate is not None
    ending = f"--imagenet2012-steps_20k-lr_{rate}-res_{side}" if fine_tuned else ""
    return google_file(
        model,
        f"augreg_imagenet21k_ft_imagenet_{side}" if fine_tuned else "augreg_imagenet21k",
        f"{GOOGLE}/augreg/{stem}-i21k-300ep-lr_0.001-{recipe}{ending}",
        kind,
        side,
        source,
        **facts,
    )


AUGREG = (
    *(
        _augreg(model, I21K, stem, recipe, README, **rounded_mib(mib, 1))
        for model, stem, recipe, mib, _, _ in RECOMMENDED
    ),
    _augreg("ViT_B8", I21K, "B_8", "aug_medium2-wd_0.1-do_0.0-sd_0.0", BIG_VISION),
    *(
        _augreg(model, FINE_TUNED, stem, recipe, TIMM, rate, 224, **measured(top1, TIMM_RESULTS))
        for model, stem, recipe, rate, top1 in CHOSEN_AT_224
    ),
    *(
        _augreg(model, FINE_TUNED, stem, recipe, README, rate, 384, **measured(top1, README))
        for model, stem, recipe, _, rate, top1 in RECOMMENDED
    ),
)

# (model, file, top-1, MiB). The file of S/16 is three times its weights: it also has the
# optimizer's.
SAM = tuple(
    google_file(
        model,
        "sam_imagenet",
        f"{GOOGLE}/sam/{file}",
        I1K,
        224,
        LISTING,
        pre_logits=None,
        **measured(top1, TIMM_RESULTS),
        **rounded_mib(mib, 0.1),
    )
    for model, file, top1, mib in (
        ("ViT_S16", "ViT-S_16", None, 252.6),
        ("ViT_B16", "ViT-B_16", 80.24, None),
        ("ViT_B32", "ViT-B_32", None, None),
        ("ViT_L16", "ViT-L_16", None, None),
        ("ViT_L32", "ViT-L_32", None, None),
    )
)

ENTRIES = (*AUGREG, *ORIGINAL, *ORIGINAL_FINE_TUNED, *SAM)
