"""Checkpoints of the BiT ResNets as released: flat `.npz` files of TensorFlow's variable names.

Kernels have our shapes, but that the classifier is a 1 x 1 convolution. In some files a layer's
name has a number that TensorFlow gave it, `standardized_conv2d_1` for `standardized_conv2d`; a
layer is told by the path above it, so the number says nothing and goes.
"""

import re
from collections.abc import Mapping

import numpy as np

from keras_vit.weights import checkpoint, mapping
from keras_vit.weights.lazy import shape_of
from keras_vit.weights.mapping import VECTOR, Layout, Row

FORMAT = "bit"

# (1, 1, C, K) <-> (C, K)
POINTWISE = Layout(lambda array, sizes: array[0, 0], lambda array, sizes: array[None, None])

UNIT, THEIRS = "stage_{s}_unit_{u}", "resnet/block{s}/unit{u:02d}"


def _conv(path, key):
    return Row(f"{path}/kernel", f"{key}/standardized_conv2d/kernel")


def _norm(path, key):
    return mapping.norm(path, f"{key}/group_norm", ("gamma", "beta"), "/", VECTOR)


TABLE = {
    "stem": (_conv("stem_conv", "resnet/root_block"),),
    "units": (
        *_norm(f"{UNIT}/norm1", f"{THEIRS}/a"),
        _conv(f"{UNIT}/conv1", f"{THEIRS}/a"),
        *_norm(f"{UNIT}/norm2", f"{THEIRS}/b"),
        _conv(f"{UNIT}/conv2", f"{THEIRS}/b"),
        *_norm(f"{UNIT}/norm3", f"{THEIRS}/c"),
        _conv(f"{UNIT}/conv3", f"{THEIRS}/c"),
    ),
    "projections": (_conv("stage_{s}_unit_1/conv_proj", "resnet/block{s}/unit01/a/proj"),),
    "norm": _norm("norm", "resnet"),
    "head": (
        Row("head/kernel", "resnet/head/conv2d/kernel", POINTWISE),
        Row("head/bias", "resnet/head/conv2d/bias"),
    ),
}
REQUIRED = ("stem", "units", "projections", "norm")

NUMBERED = re.compile(r"/(standardized_conv2d|group_norm|conv2d)_\d+/")


def read(arrays: Mapping[str, np.ndarray], *, metadata: Mapping | None = None):
    """Reads a checkpoint in the names of the released BiT files.

    Args:
        arrays: Arrays by key; they may be read lazily.
        metadata: What `checkpoint.record` gave when keras_vit wrote the file.

    Returns:
        A `checkpoint.Checkpoint` whose facts are fields of `BiTSpec` and its family.

    Raises:
        ValueError: if a key is missing or unknown. All of them are listed.
    """
    names = mapping.strip_wrappers(arrays)
    names = mapping.rename(names, lambda name: NUMBERED.sub(r"/\1/", name))
    sources = {name: mapping.Source(key) for name, key in names.items()}
    repeats = mapping.Repeats(
        units=mapping.count_units(sources, r"resnet/block(\d+)/unit(\d+)/", first=1)
    )
    try:
        matched = mapping.match(TABLE, REQUIRED, sources, repeats)
    except mapping.Unmatched as error:
        raise error.explained("BiT's", sources, kind="ResNet") from None
    weights = mapping.lazy_weights(matched, sources, arrays, {})
    recorded, _ = checkpoint.recorded_facts(metadata)
    facts = checkpoint.merge_facts(
        {"pooling": "avg"}, weights=_facts(weights, repeats.units), metadata=recorded
    )
    return checkpoint.Checkpoint(weights, facts)


def write(weights: Mapping[str, np.ndarray], facts: Mapping) -> dict[str, np.ndarray]:
    """Names weights as the released BiT files do.

    Args:
        weights: Arrays by our variable path.
        facts: The fields of the model's spec.

    Returns:
        Arrays by key, for `files.write_npz`.

    Raises:
        ValueError: if the format cannot express the model.
    """
    reasons = {
        "pooling by 'max'": facts.get("pooling") == "max",
        "kernels that have been standardised for good": bool(facts.get("folded")),
    }
    checkpoint.refuse(FORMAT, reasons, facts)
    return mapping.foreign_arrays(TABLE, REQUIRED, weights, FORMAT)


def _facts(weights, units):
    *_, channels, stem_width = shape_of(weights, "stem_conv/kernel")
    head = "head/kernel"
    return {
        "family": "bit",
        "num_layers": units,
        "width": stem_width / 64,
        "channels": channels,
        "classes": shape_of(weights, head)[1] if head in weights else None,
    }
