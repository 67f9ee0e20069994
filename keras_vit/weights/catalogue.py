"""The published checkpoints, as data: where they are, what they are, and who says so.

Only what a source states is here. Google publishes neither sizes nor hashes of most files; those
are None, and a download is checked against what the server says. Names of weights:

* `orig_...`: the Vision Transformer paper's own, `augreg_...`: arXiv 2106.10270, better trained,
  `sam_...`: trained with sharpness-aware minimisation, `bit_s_...`, `bit_m_...`: BiT ResNets,
  `distilled_...`, `teacher_...`: arXiv 2106.05237;
* `..._imagenet21k`: the classes and data of pre-training, `..._ft_imagenet_384`: fine-tuned on
  ImageNet-1k at that resolution;
* `hf_...`, `timm_...`: the same weights at the Hugging Face Hub, in the names of transformers and
  timm. These implementations differ from Google's in constants, which the model takes from
  `WeightEntry.origin`.
"""

import dataclasses

from keras_vit.models.preprocessing import Preprocessing

GOOGLE = "https://storage.googleapis.com/vit_models"
BIT = "https://storage.googleapis.com/bit_models"
MIB = 2**20


@dataclasses.dataclass(frozen=True)
class WeightEntry:
    """A published checkpoint.

    Attributes:
        model: Name of the constructor that it is for, such as `"ViT_B16"`.
        name: What `weights=` calls it, such as `"augreg_imagenet21k_ft_imagenet_224"`.
        url: `https://...` of a file, or `hf://organisation/repository` with `@revision`.
        source: Who publishes this address, or says that the file is there.
        training_data: What it was trained on.
        label_set: `"imagenet"` (ILSVRC-2012's order), `"imagenet21k"`, or None without a head.
        classes: How many classes the head has, or None without a head.
        resolution: `(height, width)` of the images.
        preprocessing: The pixel range and the crop that it was trained or published with.
        origin: Whose names and constants it has: `"google"`, `"timm"` or `"huggingface"`.
        licence: Of the weights.
        top1: Published accuracy on ImageNet's 50,000 validation images in percent, or None.
        top1_source: Who measured it.
        zero_head: Whether the head is all zeros, as Google's first ImageNet-21k files have it.
        pre_logits: Whether there is a layer before the head; None if no source says.
        size: Bytes, if a source states them.
        size_within: By how many bytes the stated size may be off, since sources round.
        sha256: Hexadecimal digest, if a source states one.
        md5: As `sha256`.
    """

    model: str
    name: str
    url: str
    source: str
    training_data: str
    label_set: str | None
    classes: int | None
    resolution: tuple[int, int]
    preprocessing: Preprocessing
    origin: str
    licence: str = "Apache-2.0"
    top1: float | None = None
    top1_source: str | None = None
    zero_head: bool = False
    pre_logits: bool | None = False
    size: int | None = None
    size_within: int = 0
    sha256: str | None = None
    md5: str | None = None


# How images are evaluated. Google squashes them to a square; timm crops the centre; transformers
# squashes with Pillow, whose bilinear filter is antialiased.
_SQUASHED = Preprocessing()
_PILLOW = Preprocessing(antialias=True)
_CENTER_90 = Preprocessing(
    crop_fraction=0.9, crop_mode="center", resize_method="bicubic", antialias=True
)
_CENTER_100 = dataclasses.replace(_CENTER_90, crop_fraction=1.0)

_I21K = {"training_data": "ImageNet-21k", "label_set": "imagenet21k", "classes": 21843}
_FINE_TUNED = {
    "training_data": "ImageNet-21k, then ImageNet-1k",
    "label_set": "imagenet",
    "classes": 1000,
}
_I1K = {"training_data": "ImageNet-1k", "label_set": "imagenet", "classes": 1000}
_I21K_BARE = {"training_data": "ImageNet-21k", "label_set": None, "classes": None}

_README = "google-research/vision_transformer, README.md"
_LISTING = "google-research/vision_transformer, listing of the bucket in vit_jax.ipynb"
_PAPER = "arXiv 2010.11929, table 5, for a model of this kind"
_TIMM = "huggingface/pytorch-image-models 1.0.31, default_cfgs"
_TIMM_RESULTS = "huggingface/pytorch-image-models, results/results-imagenet.csv"
_BIG_VISION = "google-research/big_vision, models/vit.py"
_BIG_TRANSFER = "google-research/big_transfer, README.md"
_BIT_MODELS = "google-research/big_transfer, README.md and bit_pytorch/models.py"
_FUNMATCH = "google-research/big_vision, configs/proj/distill/README.md"


def _mib(number, within):
    """A size that its source states in MiB, rounded."""
    if number is None:
        return {}
    return {"size": round(number * MIB), "size_within": round(within * MIB)}


def _google(model, name, address, kind, side, source, **facts):
    return WeightEntry(
        model,
        name,
        f"{address}.npz",
        source,
        resolution=(side, side),
        preprocessing=_SQUASHED,
        origin="google",
        **kind,
        **facts,
    )


def _measured(top1, source):
    return {"top1": top1, "top1_source": None if top1 is None else source}


# (model, file, whether it has pre-logits, MiB). All at 224, and all with a head of zeros (issues 10
# and 32 of google-research/vision_transformer). Files with a twin at the Hub, where the layer is
# the pooler, have it, and R50+ViT-B_16 by its published size.
_ORIGINAL = tuple(
    _google(
        model,
        "orig_imagenet21k",
        f"{GOOGLE}/imagenet21k/{file}",
        _I21K,
        224,
        _LISTING,
        zero_head=True,
        pre_logits=pre_logits,
        **_mib(mib, 0.1),
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
_ORIGINAL_FINE_TUNED = tuple(
    _google(
        model,
        f"orig_imagenet21k_ft_imagenet_{side}",
        f"{GOOGLE}/imagenet21k+imagenet2012/{file}",
        _FINE_TUNED,
        side,
        _LISTING,
        **_measured(top1, source),
    )
    for model, file, side, top1, source in (
        ("ViT_B16", "ViT-B_16-224", 224, 81.2, _README),
        ("ViT_B16", "ViT-B_16", 384, 84.20, _TIMM_RESULTS),
        ("ViT_B32", "ViT-B_32", 384, 81.28, _PAPER),
        ("ViT_L16", "ViT-L_16-224", 224, 82.7, _README),
        ("ViT_L16", "ViT-L_16", 384, 85.15, _PAPER),
        ("ViT_L32", "ViT-L_32", 384, 81.51, _TIMM_RESULTS),
        ("R50_ViT_B16", "R50+ViT-B_16", 384, 84.98, _TIMM_RESULTS),
    )
)

# The checkpoints that the README recommends: (model, stem of the file, MiB that the README states
# for it, learning rate of fine-tuning at 384, its top-1). Fine-tuned files append the learning rate
# and the resolution to the name of what they started from.
_RECOMMENDED = (
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
_CHOSEN_AT_224 = (
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
    return _google(
        model,
        f"augreg_imagenet21k_ft_imagenet_{side}" if fine_tuned else "augreg_imagenet21k",
        f"{GOOGLE}/augreg/{stem}-i21k-300ep-lr_0.001-{recipe}{ending}",
        kind,
        side,
        source,
        **facts,
    )


_AUGREG = (
    *(
        _augreg(model, _I21K, stem, recipe, _README, **_mib(mib, 1))
        for model, stem, recipe, mib, _, _ in _RECOMMENDED
    ),
    _augreg("ViT_B8", _I21K, "B_8", "aug_medium2-wd_0.1-do_0.0-sd_0.0", _BIG_VISION),
    *(
        _augreg(
            model, _FINE_TUNED, stem, recipe, _TIMM, rate, 224, **_measured(top1, _TIMM_RESULTS)
        )
        for model, stem, recipe, rate, top1 in _CHOSEN_AT_224
    ),
    *(
        _augreg(model, _FINE_TUNED, stem, recipe, _README, rate, 384, **_measured(top1, _README))
        for model, stem, recipe, _, rate, top1 in _RECOMMENDED
    ),
)

# (model, file, top-1, MiB). The file of S/16 is three times its weights: it also has the
# optimizer's.
_SAM = tuple(
    _google(
        model,
        "sam_imagenet",
        f"{GOOGLE}/sam/{file}",
        _I1K,
        224,
        _LISTING,
        pre_logits=None,
        **_measured(top1, _TIMM_RESULTS),
        **_mib(mib, 0.1),
    )
    for model, file, top1, mib in (
        ("ViT_S16", "ViT-S_16", None, 252.6),
        ("ViT_B16", "ViT-B_16", 80.24, None),
        ("ViT_B32", "ViT-B_32", None, None),
        ("ViT_L16", "ViT-L_16", None, None),
        ("ViT_L32", "ViT-L_32", None, None),
    )
)


# (architecture, resolution and top-1 of what was fine-tuned). Resolutions as timm evaluates them
# (huggingface/pytorch-image-models, models/resnetv2.py): the file does not tell.
_BIT_RELEASED = (
    ("R50x1", 448, 80.34),
    ("R50x3", 448, 84.02),
    ("R101x1", 448, 82.34),
    ("R101x3", 448, 84.44),
    ("R152x2", 448, 84.51),
    ("R152x4", 480, 84.92),
)

_BIT_ENTRIES = (
    *(
        _google(f"BiT_{a}", "bit_s_imagenet", f"{BIT}/BiT-S-{a}", _I1K, 224, _BIT_MODELS)
        for a, _, _ in _BIT_RELEASED
    ),
    *(
        _google(f"BiT_{a}", "bit_m_imagenet21k", f"{BIT}/BiT-M-{a}", _I21K, 224, _BIG_TRANSFER)
        for a, _, _ in _BIT_RELEASED
    ),
    *(
        _google(
            f"BiT_{a}",
            f"bit_m_imagenet21k_ft_imagenet_{side}",
            f"{BIT}/BiT-M-{a}-ILSVRC2012",
            _FINE_TUNED,
            side,
            _BIG_TRANSFER,
            **_measured(top1, _TIMM_RESULTS),
        )
        for a, side, top1 in _BIT_RELEASED
    ),
    *(
        _google(
            model,
            name,
            f"{BIT}/distill/{file}",
            kind,
            side,
            _FUNMATCH,
            **_measured(top1, _FUNMATCH),
        )
        for model, name, file, kind, side, top1 in (
            ("BiT_R50x1", "distilled_imagenet_224", "R50x1_224", _I1K, 224, 82.8),
            ("BiT_R50x1", "distilled_imagenet_160", "R50x1_160", _I1K, 160, 80.5),
            (
                "BiT_R152x2",
                "teacher_imagenet21k_ft_imagenet_224",
                "R152x2_T_224",
                _FINE_TUNED,
                224,
                83.0,
            ),
            (
                "BiT_R152x2",
                "teacher_imagenet21k_ft_imagenet_384",
                "R152x2_T_384",
                _FINE_TUNED,
                384,
                84.3,
            ),
        )
    ),
)

MB, GB = 10**6, 10**9

# (model, repository, revision, resolution, size as the repository shows it, its unit of rounding).
# Where the main branch has no safetensors, the revision is the one that Hugging Face's converter
# has proposed, which has. Repositories "-in21k" have no head; their pooler is the pre-logits layer.
_TRANSFORMERS = tuple(
    WeightEntry(
        model,
        "hf_orig_imagenet21k" + ("" if bare else f"_ft_imagenet_{side}"),
        f"hf://google/{repository}" + (f"@{revision}" if revision else ""),
        f"huggingface.co/google/{repository}, files",
        resolution=(side, side),
        preprocessing=_PILLOW,
        origin="huggingface",
        pre_logits=bare,
        size=round(size),
        size_within=round(unit),
        **(_I21K_BARE if bare else _FINE_TUNED),
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


def _timm(model, architecture, tag, kind, side, top1=None):
    return WeightEntry(
        model,
        _timm_name(tag, side),
        f"hf://timm/{architecture}_{side}.{tag}",
        _TIMM,
        resolution=(side, side),
        preprocessing=_CENTER_100 if side == 384 else _CENTER_90,
        origin="timm",
        **_measured(top1, _TIMM_RESULTS),
        **kind,
    )


def _timm_name(tag, side):
    method, _, data = tag.partition("_")
    if data == "in1k":
        return f"timm_{method}_imagenet"
    return f"timm_{method}_imagenet21k" + (f"_ft_imagenet_{side}" if "ft" in data else "")


# (model, timm's architecture, top-1 at 224 and at 384; None if that was not published there).
_TIMM_AUGREG = (
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

_TIMM_ENTRIES = (
    *(_timm(m, a, "augreg_in21k", _I21K, 224) for m, a, _, _ in _TIMM_AUGREG),
    *(
        _timm(model, architecture, "augreg_in21k_ft_in1k", _FINE_TUNED, side, top1)
        for model, architecture, *accuracies in _TIMM_AUGREG
        for side, top1 in zip((224, 384), accuracies, strict=True)
        if top1 is not None
    ),
    # Fine-tuned anew by timm's author.
    _timm("ViT_B16", "vit_base_patch16", "augreg2_in21k_ft_in1k", _FINE_TUNED, 224, 85.11),
    _timm("ViT_B8", "vit_base_patch8", "augreg2_in21k_ft_in1k", _FINE_TUNED, 224),
    *(
        _timm(model, architecture, "orig_in21k_ft_in1k", _FINE_TUNED, side, top1)
        for model, architecture, side, top1 in (
            ("ViT_B16", "vit_base_patch16", 224, 81.79),
            ("ViT_B16", "vit_base_patch16", 384, 84.20),
            ("ViT_L32", "vit_large_patch32", 384, 81.51),
            ("R50_ViT_B16", "vit_base_r50_s16", 384, 84.98),
        )
    ),
    _timm("ViT_B16", "vit_base_patch16", "sam_in1k", _I1K, 224, 80.24),
    _timm("ViT_B32", "vit_base_patch32", "sam_in1k", _I1K, 224),
)

ENTRIES = (
    *_AUGREG,
    *_ORIGINAL,
    *_ORIGINAL_FINE_TUNED,
    *_SAM,
    *_BIT_ENTRIES,
    *_TRANSFORMERS,
    *_TIMM_ENTRIES,
)

# What an alias stands for: the first of these that the model has. "imagenet" prefers 224.
ALIASES = {
    "imagenet": (
        "augreg_imagenet21k_ft_imagenet_224",
        "orig_imagenet21k_ft_imagenet_224",
        "distilled_imagenet_224",
        "teacher_imagenet21k_ft_imagenet_224",
        "orig_imagenet21k_ft_imagenet_384",
        "bit_m_imagenet21k_ft_imagenet_448",
        "bit_m_imagenet21k_ft_imagenet_480",
    ),
    "imagenet-384": (
        "augreg_imagenet21k_ft_imagenet_384",
        "orig_imagenet21k_ft_imagenet_384",
        "teacher_imagenet21k_ft_imagenet_384",
    ),
    "imagenet21k": ("augreg_imagenet21k", "orig_imagenet21k", "bit_m_imagenet21k"),
}


def entries(model: str | None = None) -> tuple[WeightEntry, ...]:
    """The published checkpoints of a model, or all of them.

    Args:
        model: Name of a constructor, such as `"ViT_B16"`.
    """
    return tuple(entry for entry in ENTRIES if model in (None, entry.model))


def aliases(model: str) -> dict[str, str]:
    """`{alias: name of weights}` for the aliases that mean something for a model."""
    names = {entry.name for entry in entries(model)}
    meanings = {alias: [n for n in chain if n in names] for alias, chain in ALIASES.items()}
    return {alias: found[0] for alias, found in meanings.items() if found}


def find(model: str, weights: str) -> WeightEntry:
    """The entry that a model's `weights=` names.

    Args:
        model: Name of a constructor, such as `"ViT_B16"`.
        weights: A name or an alias.

    Raises:
        ValueError: if the model has no weights of that name. It lists those that it has.

    Example:

    >>> find("ViT_B16", "imagenet").url
    """
    known = aliases(model)
    name = known.get(weights, weights)
    for entry in entries(model):
        if entry.name == name:
            return entry
    names = [*known, *(entry.name for entry in entries(model))]
    raise ValueError(
        f"`weights` for '{model}' must be {', '.join(map(repr, names)) + ', ' if names else ''}"
        f"None for fresh weights, or the path of a file. Received: weights={weights!r}"
    )
