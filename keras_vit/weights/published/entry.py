"""What the catalogue says of a checkpoint, and facts that many of them share."""

import dataclasses

from keras_vit.models.preprocessing import Preprocessing

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
SQUASHED = Preprocessing()
PILLOW = Preprocessing(antialias=True)
CENTER_90 = Preprocessing(
    crop_fraction=0.9, crop_mode="center", resize_method="bicubic", antialias=True
)
CENTER_100 = dataclasses.replace(CENTER_90, crop_fraction=1.0)

I21K = {"training_data": "ImageNet-21k", "label_set": "imagenet21k", "classes": 21843}
FINE_TUNED = {
    "training_data": "ImageNet-21k, then ImageNet-1k",
    "label_set": "imagenet",
    "classes": 1000,
}
I1K = {"training_data": "ImageNet-1k", "label_set": "imagenet", "classes": 1000}
I21K_BARE = {"training_data": "ImageNet-21k", "label_set": None, "classes": None}

# Who measured it, or says that it is there, for files of more than one publisher.
TIMM = "huggingface/pytorch-image-models 1.0.31, default_cfgs"
TIMM_RESULTS = "huggingface/pytorch-image-models, results/results-imagenet.csv"


def rounded_mib(number, within):
    """A size that its source states in MiB, rounded."""
    if number is None:
        return {}
    return {"size": round(number * MIB), "size_within": round(within * MIB)}


def google_file(model, name, address, kind, side, source, **facts):
    """The entry of a file that Google publishes."""
    return WeightEntry(
        model,
        name,
        f"{address}.npz",
        source,
        resolution=(side, side),
        preprocessing=SQUASHED,
        origin="google",
        **kind,
        **facts,
    )


def measured(top1, source):
    """The two fields of an accuracy, None of one that nobody has published."""
    return {"top1": top1, "top1_source": None if top1 is None else source}
