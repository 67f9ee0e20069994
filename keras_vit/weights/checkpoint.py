"""What a foreign checkpoint holds: weights under our paths, and the facts that a model needs.

**The grid of a position table.** A table has `n` rows for `P` prefix tokens (class token and
registers) and a grid of patches. Whether the prefix has rows of its own, and how the rest lies in a
grid, is settled by the first of these that applies:

1. The grid is known, from metadata, from a configuration, or from the user's `source_grid`: then
   `n` is the grid alone or the grid plus `P`, and anything else raises.
2. The format leaves no choice about the prefix: what is left after it is a square, or unknown.
3. `n - P` is a square and `n` is not: the prefix has rows (50 = 1 + 7 x 7).
4. `n` is a square, and `n - P` is no plausible grid: the rows are patches alone
   (16 for a class token and four registers, as 11 is only 1 x 11).
5. Otherwise it is unknown: 49 rows and a class token may be 7 x 7 or 1 + 6 x 8.

A perfect square is always taken to be square; 4 x 4 is never thought to be 2 x 8. Unknown means
`position_grid=None`, and `Checkpoint.with_grid` settles it.
"""

import dataclasses
import json
from collections.abc import Mapping

import numpy as np

from keras_vit.weights.lazy import shape_of

# (activation, LayerNorm epsilon) by origin. `models.spec` has them too; these modules stay free of
# Keras, and a test holds the two together.
CONSTANTS = {
    "google": ("gelu_tanh", 1e-6),
    "timm": ("gelu", 1e-6),
    "huggingface": ("gelu", 1e-12),
}

# Facts that must agree between a checkpoint and the model it is loaded into. The others are
# settings and descriptions, which a caller may change.
STRUCTURE = frozenset(
    {
        "channels",
        "class_token",
        "hidden_dim",
        "layer_scale",
        "mlp_dim",
        "norm_after_pool",
        "num_heads",
        "num_layers",
        "num_registers",
        "patch_size",
        "position_embedding",
        "qk_norm",
        "resnet",
        "resnet_width",
    }
)

# Fields of a spec that are written beside the weights, for formats whose names do not tell them.
RECORDED = (
    "image_size",
    "patch_size",
    "num_heads",
    "pooling",
    "position_embedding",
    "class_token_position",
    "num_registers",
    "norm_after_pool",
    "origin",
    "activation",
    "layer_norm_epsilon",
    "interpolation",
    "preprocessing",
    "class_names",
)

POSITIONS = "position_embedding/table"
MOST_ELONGATED = 4  # the aspect ratio up to which rows are plausibly a grid


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that has been read: arrays and facts, no model.

    Attributes:
        weights: `{variable path: float32 array}`, read when asked for; `weights.shape(path)` reads
            nothing.
        facts: `{field of ViTSpec: value}` for every field that the checkpoint determines.
            `layer_scale` is True or None, since its initial value is gone. `classes` is None
            without a head. `class_token_position` is absent while the grid is unknown.
        position_grid: `(rows, columns)` of the position table, None if there is no table or if its
            grid is unknown.
        unused: `{foreign key: why it is not a weight of the model}`.
        pooling_is_told: Whether the format, a configuration or a record says what the head reads.
            Otherwise `facts["pooling"]` is the usual, and a caller may know better.
    """

    weights: Mapping[str, np.ndarray]
    facts: dict
    position_grid: tuple[int, int] | None = None
    unused: dict[str, str] = dataclasses.field(default_factory=dict)
    pooling_is_told: bool = True

    @property
    def prefix_tokens(self) -> int:
        """How many tokens come before the patches."""
        return int(self.facts["class_token"]) + self.facts["num_registers"]

    def with_grid(self, source_grid: tuple[int, int]) -> "Checkpoint":
        """The checkpoint with its position grid settled.

        Raises:
            ValueError: if the position table has another number of rows.
        """
        known = self.facts.get("class_token_position")
        prefixes = {0, self.prefix_tokens} if known is None else {known * self.prefix_tokens}
        included, grid = settle_positions(
            shape_of(self.weights, POSITIONS)[1],
            self.prefix_tokens,
            prefixes,
            tuple(source_grid),
            "source_grid",
        )
        facts = {**self.facts, "class_token_position": included}
        return dataclasses.replace(self, facts=facts, position_grid=grid)


def settle_positions(
    rows: int,
    prefix: int,
    prefixes: set[int],
    grid: tuple[int, int] | None = None,
    grid_source: str = "grid",
) -> tuple[bool | None, tuple[int, int] | None]:
    """Applies the rule at the top of this file.

    Args:
        rows: Rows of the position table.
        prefix: How many prefix tokens the model has.
        prefixes: How many rows the format may have for them: `{0}`, `{prefix}` or both.
        grid: The grid, if it is known.
        grid_source: Who says so, for the error.

    Returns:
        `(class_token_position, grid)`, each None if unknown.
    """
    if grid is not None:
        fitting = {p for p in prefixes if rows - p == grid[0] * grid[1]}
        if not fitting:
            raise ValueError(
                f"The position table has {rows} rows, which a grid of {grid[0]} x {grid[1]} "
                f"patches and {' or '.join(map(str, sorted(prefixes)))} prefix tokens does not "
                f"give. Received: {grid_source}={grid}. It must be the grid (rows, columns) of the "
                "image that the checkpoint was made for."
            )
        return bool(fitting.pop()) or prefix == 0, grid
    if len(prefixes) == 1 or prefix == 0:
        (held,) = prefixes if prefix else {0}
        return bool(held) or prefix == 0, _square(rows - held)
    if _square(rows - prefix) and not _square(rows):
        return True, _square(rows - prefix)
    if _square(rows) and not _plausible(rows - prefix):
        return False, _square(rows)
    return None, None


def _square(number):
    root = round(max(number, 0) ** 0.5)
    return (root, root) if root > 0 and root * root == number else None


def _plausible(number):
    """Whether so many patches can be a grid that is not too elongated."""
    sides = range(1, int(max(number, 0) ** 0.5) + 1)
    return any(number % a == 0 and number <= MOST_ELONGATED * a * a for a in sides)


def facts_from_weights(weights: Mapping[str, np.ndarray]) -> dict:
    """The spec fields that our own variable paths and their shapes determine.

    Pooling is not among them but for "map": a class token may be there and not be read.
    """
    *patch_size, channels, hidden_dim = shape_of(weights, "patch_embedding/kernel")
    facts = {
        "patch_size": tuple(patch_size),
        "channels": channels,
        "hidden_dim": hidden_dim,
        "num_layers": sum(path.endswith("/attention/query/kernel") for path in weights)
        - ("map_pooling/probe" in weights),
        "num_heads": shape_of(weights, "block_0/attention/query/kernel")[1],
        "mlp_dim": shape_of(weights, "block_0/mlp/hidden/kernel")[1],
        "class_token": "class_token/token" in weights,
        "num_registers": _size(weights, "register_tokens/tokens", 1) or 0,
        "layer_scale": True if "block_0/mlp_scale/gamma" in weights else None,
        "qk_norm": "block_0/attention/query_norm/gamma" in weights,
        "representation_size": _size(weights, "pre_logits/kernel", 1),
        "classes": _size(weights, "head/kernel", 1),
        "resnet": None,
        "resnet_width": 1.0,
    }
    if "map_pooling/probe" in weights:
        facts["pooling"] = "map"
    if "stem_conv/kernel" in weights:
        *_, facts["channels"], width = shape_of(weights, "stem_conv/kernel")
        facts.update(resnet=_units(weights), resnet_width=width / 64)
    return facts


def checked_heads(num_heads: int, hidden_dim: int) -> int:
    """The number of heads.

    Raises:
        ValueError: if it does not divide the hidden size.
    """
    if num_heads < 1 or hidden_dim % num_heads:
        raise ValueError(
            f"`num_heads` must divide the hidden size {hidden_dim}. Received: num_heads={num_heads}"
        )
    return num_heads


def grid_of_size(facts: Mapping) -> tuple[int, int] | None:
    """The grid of patches that an image size among the facts implies; None where it does not tell.

    The grid of a hybrid takes more than a division; the rule for squares serves the published.
    """
    if facts.get("resnet") is not None or "image_size" not in facts:
        return None
    return tuple(i // p for i, p in zip(facts["image_size"], facts["patch_size"], strict=True))


def _size(weights, path, axis):
    return shape_of(weights, path)[axis] if path in weights else None


def _units(weights):
    stages = [path.split("_")[1] for path in weights if path.endswith("/conv1/kernel")]
    return tuple(stages.count(stage) for stage in sorted(set(stages), key=int))


def merge_facts(defaults: Mapping, **sources: Mapping) -> dict:
    """Joins what several sources say, which must not contradict one another.

    Args:
        defaults: What holds where no source says anything.
        **sources: Facts by the name of their source.

    Raises:
        ValueError: if two sources differ about a fact.
    """
    merged, said_by = {}, {}
    for source, facts in sources.items():
        for name, value in facts.items():
            if name in merged and merged[name] != value:
                raise ValueError(
                    f"The parts of a checkpoint must agree. Received: {name}={merged[name]!r} "
                    f"from {said_by[name]}, {name}={value!r} from {source}."
                )
            merged[name], said_by[name] = value, source
    return {**defaults, **merged}


def assemble(
    weights: Mapping[str, np.ndarray],
    facts: Mapping,
    unused: Mapping[str, str],
    prefixes: set[int],
    grid: tuple[int, int] | None,
    pooling_is_told: bool = True,
) -> Checkpoint:
    """The checkpoint of weights and merged facts: settles positions and fills in the pooling."""
    facts = {"position_embedding": "learned", "norm_after_pool": False, **facts}
    if "pooling" not in facts:
        pools_token = facts["class_token"] and not facts["norm_after_pool"]
        facts["pooling"] = "token" if pools_token else "avg"
    included, position_grid = True, None
    if POSITIONS in weights:
        prefix = int(facts["class_token"]) + facts["num_registers"]
        known = facts.get("class_token_position")
        if known is not None and prefix:
            prefixes = prefixes & {known * prefix}
        rows = shape_of(weights, POSITIONS)[1]
        included, position_grid = settle_positions(rows, prefix, prefixes, grid)
    if included is not None:
        facts["class_token_position"] = included
    return Checkpoint(weights, facts, position_grid, dict(unused), pooling_is_told)


# What keras_vit writes beside foreign weights, for itself.


def record(facts: Mapping, position_grid: tuple[int, int] | None = None) -> dict:
    """The plain values to keep beside weights in a foreign format.

    Args:
        facts: Fields of a spec, `model.spec.to_dict()` for instance.
        position_grid: The grid of the position table.
    """
    values = {name: facts[name] for name in RECORDED if facts.get(name) is not None}
    if position_grid is not None:
        values["position_grid"] = tuple(position_grid)
    return json.loads(json.dumps(values))  # tuples become lists here rather than later


def recorded_facts(metadata: Mapping | None) -> tuple[dict, tuple[int, int] | None]:
    """`(facts, position_grid)` from what `record` gave."""
    facts = {name: _tuples(value) for name, value in (metadata or {}).items()}
    grid = facts.pop("position_grid", None)
    unknown = sorted(set(facts) - set(RECORDED))
    if unknown:
        raise ValueError(f"The metadata must be {RECORDED}. Received: {unknown}")
    return facts, grid


def _tuples(value):
    if isinstance(value, dict):
        return {name: _tuples(v) for name, v in value.items()}
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def constants(facts: Mapping) -> tuple[str, float]:
    """`(activation, layer_norm_epsilon)` in force: the fields, or the origin's."""
    activation, epsilon = CONSTANTS[facts.get("origin") or "google"]
    given_epsilon = facts.get("layer_norm_epsilon")
    return facts.get("activation") or activation, given_epsilon or epsilon


def mlp_ratio(hidden_dim: int, mlp_dim: int) -> float:
    """The factor from which PyTorch code gets `mlp_dim` as `int(hidden_dim * ratio)`."""
    ratio = mlp_dim / hidden_dim
    # Where rounding would lose one, aim at the middle between two integers.
    return ratio if int(hidden_dim * ratio) == mlp_dim else (mlp_dim + 0.5) / hidden_dim


def refuse(format_name: str, reasons: Mapping[str, bool], facts: Mapping) -> None:
    """Raises a `ValueError` that lists every reason that holds.

    Args:
        format_name: The format that is to be written.
        reasons: `{what the format cannot express: whether the model has it}`.
        facts: The model's facts.
    """
    holding = [reason for reason, holds in reasons.items() if holds]
    if holding:
        shown = {k: v for k, v in facts.items() if k not in ("class_names", "preprocessing")}
        raise ValueError(
            f"The {format_name} format cannot express {'; '.join(holding)}. Received: {shown}"
        )


def fold_prefix_positions(
    weights: Mapping[str, np.ndarray], tokens: Mapping[str, slice]
) -> dict[str, np.ndarray]:
    """Adds rows of the position table to the tokens they belong to, and drops them.

    The sum is the one that the model itself would compute first, so the outputs stay the same to
    the last bit.

    Args:
        weights: Weights under our paths.
        tokens: `{path of tokens: their rows in the position table}`.
    """
    folded, table = dict(weights), np.asarray(weights[POSITIONS])
    for path, rows in tokens.items():
        folded[path] = np.asarray(weights[path]) + table[:, rows]
    dropped = [row for rows in tokens.values() for row in range(rows.start, rows.stop)]
    folded[POSITIONS] = np.delete(table, dropped, axis=1)
    return folded
