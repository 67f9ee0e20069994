"""Checkpoints of google-research/vision_transformer and big_vision: flat `.npz` files.

Kernels have our shapes already, so apart from ResNet normalisation the table is a pure rename. What
varies is how the names are spelled; `_canonical` brings all of these to the table's spelling:

- Files from before Flax Linen count all submodules of a block together (LayerNorm_0,
  MultiHeadDotProductAttention_1, LayerNorm_2, MlpBlock_3), later ones count each class from zero.
- The parameters lie at the top, or under `params/`, `opt/target/`, `params/img/` or `img/`.
- big_vision's `scan` models stack all blocks in one `encoderblock` with a leading layer axis.
- Positions were called `Transformer/posembed_input/pos_embedding` before `pos_embedding`. The new
  name always holds the grid alone, the old one normally holds the class token's row as well.
- The parts of the attention pooling head once lay at the top.
"""

import collections
import re
from collections.abc import Mapping

import numpy as np

from keras_vit.weights import checkpoint, mapping
from keras_vit.weights.lazy import shape_of
from keras_vit.weights.mapping import SAME, VECTOR, Row

FORMAT = "google"


def _dense(path, key):
    return Row(f"{path}/kernel", f"{key}/kernel"), Row(f"{path}/bias", f"{key}/bias")


def _norm(path, key, layout=SAME):
    return mapping.norm(path, key, ("scale", "bias"), "/", layout)


def _attention(path, key):
    return (
        *_dense(f"{path}/query", f"{key}/query"),
        *_dense(f"{path}/key", f"{key}/key"),
        *_dense(f"{path}/value", f"{key}/value"),
        *_dense(f"{path}/output", f"{key}/out"),
    )


UNIT, STAGES = "stage_{s}_unit_{u}", "block{s}/unit{u}"
FIRST_UNIT, FIRST_IN_STAGE = "stage_{s}_unit_1", "block{s}/unit1"
BLOCK, ENCODER = "block_{i}", "Transformer/encoderblock_{i}"
MAP = "MAPHead_0"

TABLE = {
    "stem": (
        Row("stem_conv/kernel", "conv_root/kernel"),
        *_norm("stem_norm", "gn_root", VECTOR),
    ),
    "units": (
        Row(f"{UNIT}/conv1/kernel", f"{STAGES}/conv1/kernel"),
        *_norm(f"{UNIT}/norm1", f"{STAGES}/gn1", VECTOR),
        Row(f"{UNIT}/conv2/kernel", f"{STAGES}/conv2/kernel"),
        *_norm(f"{UNIT}/norm2", f"{STAGES}/gn2", VECTOR),
        Row(f"{UNIT}/conv3/kernel", f"{STAGES}/conv3/kernel"),
        *_norm(f"{UNIT}/norm3", f"{STAGES}/gn3", VECTOR),
    ),
    "projections": (
        Row(f"{FIRST_UNIT}/conv_proj/kernel", f"{FIRST_IN_STAGE}/conv_proj/kernel"),
        *_norm(f"{FIRST_UNIT}/norm_proj", f"{FIRST_IN_STAGE}/gn_proj", VECTOR),
    ),
    "patches": _dense("patch_embedding", "embedding"),
    "class_token": (Row("class_token/token", "cls"),),
    "positions": (Row(checkpoint.POSITIONS, "pos_embedding"),),
    "blocks": (
        *_norm(f"{BLOCK}/attention_norm", f"{ENCODER}/LayerNorm_0"),
        *_attention(f"{BLOCK}/attention", f"{ENCODER}/MultiHeadDotProductAttention_0"),
        *_norm(f"{BLOCK}/mlp_norm", f"{ENCODER}/LayerNorm_1"),
        *_dense(f"{BLOCK}/mlp/hidden", f"{ENCODER}/MlpBlock_0/Dense_0"),
        *_dense(f"{BLOCK}/mlp/output", f"{ENCODER}/MlpBlock_0/Dense_1"),
    ),
    "norm": _norm("norm", "Transformer/encoder_norm"),
    "map_pooling": (
        Row("map_pooling/probe", f"{MAP}/probe"),
        *_attention("map_pooling/attention", f"{MAP}/MultiHeadDotProductAttention_0"),
        *_norm("map_pooling/norm", f"{MAP}/LayerNorm_0"),
        *_dense("map_pooling/mlp/hidden", f"{MAP}/MlpBlock_0/Dense_0"),
        *_dense("map_pooling/mlp/output", f"{MAP}/MlpBlock_0/Dense_1"),
    ),
    "pre_logits": _dense("pre_logits", "pre_logits"),
    "head": _dense("head", "head"),
}
REQUIRED = ("patches", "blocks", "norm")

ROOT = "embedding/kernel"  # every checkpoint has it, directly below the prefix
PREFIXES = ("", "params/", "opt/target/", "opt/target/params/", "params/img/", "img/")
OLD_POSITIONS = "Transformer/posembed_input/pos_embedding"
POSITION_NAMES = ("pos_embedding", "Transformer/pos_embedding", OLD_POSITIONS)
UNUSED = {
    r"(opt|opt_state|optimizer)/": "state of the optimizer",
    r"(state|extra|rng|step|epoch)(/|$)": "state of the training run",
    r"(chrono|accum_train_time|bastime)(/|$)": "times of the training run",
    r"(params|opt/target)/(txt|t|b)(/|$)": "not of the image tower",
    r"(txt|t|b)(/|$)": "not of the image tower",
}

NUMBERED = re.compile(r"(LayerNorm|MultiHeadDotProductAttention|MlpBlock|Dense)_(\d+)")
BEFORE_LINEN = {
    "MultiHeadDotProductAttention_0": "MultiHeadDotProductAttention_1",
    "LayerNorm_1": "LayerNorm_2",
    "MlpBlock_0": "MlpBlock_3",
}


def read(arrays: Mapping[str, np.ndarray], *, metadata: Mapping | None = None):
    """Reads a checkpoint in Google's names, in any of their dialects.

    Args:
        arrays: Arrays by key; they may be read lazily.
        metadata: What `checkpoint.record` gave when keras_vit wrote the file.

    Returns:
        A `checkpoint.Checkpoint`.

    Raises:
        ValueError: if a key is missing or unknown. All of them are listed.
    """
    names, unused = _canonical(arrays)
    names, old_positions = _canonical_positions(names)
    sources = _unstacked(names, arrays)
    try:
        matched = mapping.match(TABLE, REQUIRED, sources, _repeats(sources))
    except mapping.Unmatched as error:
        raise error.explained("Google's", sources) from None
    weights = mapping.lazy_weights(matched, sources, arrays, {})

    found = checkpoint.facts_from_weights(weights)
    found["position_embedding"] = "learned" if "positions" in matched else "sincos2d"
    recorded, grid = checkpoint.recorded_facts(metadata)
    facts = checkpoint.merge_facts({"origin": "google"}, weights=found, metadata=recorded)
    prefixes = {0, int(found["class_token"])} if old_positions else {0}
    return checkpoint.assemble(weights, facts, unused, prefixes, grid)


def write(weights: Mapping[str, np.ndarray], facts: Mapping) -> dict[str, np.ndarray]:
    """Names weights as Google does.

    Models that google-research/vision_transformer knows get the names of its released files. Those
    that only big_vision knows (attention pooling, fixed positions, a class token without position)
    get big_vision's, under `params/`.

    Args:
        weights: Arrays by our variable path.
        facts: The fields of the model's spec.

    Returns:
        Arrays by key, for `files.write_npz`.

    Raises:
        ValueError: if the format cannot express the model.
    """
    _refuse(weights, facts)
    if _is_big_vision(weights, facts):
        weights = _without_prefix_positions(weights, facts)
        return {f"params/{key}": array for key, array in _arrays(weights).items()}
    return {_before_linen(key): array for key, array in _arrays(weights).items()}


# Reading.


def _canonical(arrays):
    """({name as in the table or with a layer axis: key}, {unused key: reason})."""
    prefix = _prefix(arrays)
    inside, unused = {}, {}
    for key in arrays:
        reason = _reason_unused(key, prefix)
        if reason is not None:
            unused[key] = reason
        else:
            # What is neither inside nor known to be unused keeps its name and is found unknown.
            inside[key.removeprefix(prefix)] = key
    names = _renumbered(inside)
    return mapping.rename(names, _moved_into_map_head), unused


def _prefix(arrays):
    found = [prefix for prefix in PREFIXES if prefix + ROOT in arrays]
    if len(found) != 1:
        raise ValueError(
            f"A checkpoint in Google's names must have '{ROOT}' under one of "
            f"{', '.join(map(repr, PREFIXES))}. Received: it under {found or 'none of them'}, "
            f"among keys such as {sorted(arrays)[:5]}"
        )
    return found[0]


def _reason_unused(key, prefix):
    if prefix and key.startswith(prefix):
        return None
    return next((why for pattern, why in UNUSED.items() if re.match(pattern, key)), None)


def _renumbered(names):
    """Counts the submodules of each class from zero, in their order. Leaves counted ones alone."""
    numbers = collections.defaultdict(set)
    for name in names:
        for found in NUMBERED.finditer(name):
            numbers[name[: found.start()], found[1]].add(int(found[2]))

    def renumber(name):
        def position(found):
            siblings = sorted(numbers[name[: found.start()], found[1]])
            return f"{found[1]}_{siblings.index(int(found[2]))}"

        return NUMBERED.sub(position, name)

    return mapping.rename(names, renumber)


def _moved_into_map_head(name):
    top = name.split("/")[0]
    is_part = top == "probe" or NUMBERED.fullmatch(top)
    return f"{MAP}/{name}" if is_part else name


def _canonical_positions(names):
    """(names with the table's spelling, whether the old spelling was used)."""
    old = OLD_POSITIONS in names
    spelled = dict.fromkeys(POSITION_NAMES, POSITION_NAMES[0])
    return mapping.rename(names, lambda name: spelled.get(name, name)), old


def _unstacked(names, arrays):
    """{name: Source}, with the layers of a stacked encoder as blocks of their own."""
    stack = ENCODER.removesuffix("_{i}") + "/"
    sources = {}
    for name, key in names.items():
        if name.startswith(stack):
            rest = name.removeprefix(stack)
            for i in range(shape_of(arrays, key)[0]):
                sources[f"{ENCODER.format(i=i)}/{rest}"] = mapping.Source(key, i)
        else:
            sources[name] = mapping.Source(key)
    return sources


def _repeats(names):
    return mapping.Repeats(
        mapping.count(names, r"Transformer/encoderblock_(\d+)/"),
        mapping.count_units(names, r"block(\d+)/unit(\d+)/", first=1),
    )


# Writing.


def _refuse(weights, facts):
    pooling = facts.get("pooling")
    has_class_token = "class_token/token" in weights
    reasons = {
        "another position embedding than 'learned' or 'sincos2d'": facts.get("position_embedding")
        not in (None, "learned", "sincos2d"),
        "positions added to every layer": facts.get("position_injection") not in (None, "stem"),
        "registers": "register_tokens/tokens" in weights,
        "layer scale": "block_0/mlp_scale/gamma" in weights,
        "query and key normalisation": "block_0/attention/query_norm/gamma" in weights,
        "a norm after pooling": bool(facts.get("norm_after_pool")),
        "pooling by 'max'": pooling == "max",
        "pooling by 'avg' beside a class token": pooling == "avg" and has_class_token,
        "another activation than 'gelu_tanh' or LayerNorm epsilon than 1e-6": (
            checkpoint.constants(facts) != checkpoint.CONSTANTS["google"]
        ),
        # Epsilons and weight standardisation of the ResNet have no fields, only an origin.
        "a ResNet of another origin": (
            "stem_conv/kernel" in weights and facts.get("origin", "google") != "google"
        ),
        "kernels that have been standardised for good": bool(facts.get("folded")),
    }
    checkpoint.refuse(FORMAT, reasons, facts)


def _is_big_vision(weights, facts):
    without_position = "class_token/token" in weights and not facts.get(
        "class_token_position", True
    )
    return without_position or "map_pooling/probe" in weights or checkpoint.POSITIONS not in weights


def _without_prefix_positions(weights, facts):
    """big_vision's tables hold the grid alone."""
    has_row = (
        checkpoint.POSITIONS in weights
        and "class_token/token" in weights
        and facts.get("class_token_position", True)
    )
    if not has_row:
        return weights
    return checkpoint.fold_prefix_positions(weights, {"class_token/token": slice(0, 1)})


def _arrays(weights):
    return mapping.foreign_arrays(TABLE, REQUIRED, weights, FORMAT)


def _before_linen(key):
    if key == POSITION_NAMES[0]:
        return OLD_POSITIONS
    if not key.startswith("Transformer/encoderblock_"):
        return key
    return "/".join(BEFORE_LINEN.get(part, part) for part in key.split("/"))
