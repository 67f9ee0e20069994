"""Tables that pair our variable paths with a foreign format's keys, read and written alike.

A format is described by one table, `{group: rows}`. A row is our path, the foreign key, and the
layout between them; `{i}` in it stands for every block, `{s}` and `{u}` for every ResNet stage and
unit counted from one, `{s0}` and `{u0}` for the same counted from zero. A group is in a checkpoint
completely or not at all.

Letters: `D` hidden size, `h` heads, `d` head size, `C` channels, `ph` x `pw` patch size.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from keras_vit.weights import others
from keras_vit.weights.lazy import LazyWeights

# Layouts. Each is two functions of (array, sizes), where `sizes` has what shapes do not tell.


class Layout(NamedTuple):
    """How a foreign array becomes ours (`read`) and ours a foreign one (`write`)."""

    read: Callable
    write: Callable


def _keep(array, sizes):
    return array


def _transpose(array, sizes):
    return array.T


def _split_heads(array, sizes):
    return array.reshape(sizes["num_heads"], -1, *array.shape[1:])


def _join_heads(array, sizes):
    return array.reshape(-1, *array.shape[2:])


def _squeeze(array, sizes):
    return array.reshape(-1) if array.size == max(array.shape, default=0) else array


SAME = Layout(_keep, _keep)
VECTOR = Layout(_squeeze, _keep)  # (1, 1, 1, C) or (C,) <-> (C,)
DENSE = Layout(_transpose, _transpose)  # (out, in) <-> (in, out)
CONVOLUTION = Layout(  # (out, in, ph, pw) <-> (ph, pw, in, out)
    lambda array, sizes: array.transpose(2, 3, 1, 0),
    lambda array, sizes: array.transpose(3, 2, 0, 1),
)
HEADS_IN = Layout(  # (h * d, D) <-> (D, h, d)
    lambda array, sizes: _split_heads(array, sizes).transpose(2, 0, 1),
    lambda array, sizes: _join_heads(array.transpose(1, 2, 0), sizes),
)
HEADS_BIAS = Layout(_split_heads, _join_heads)  # (h * d,) <-> (h, d)
HEADS_OUT = Layout(  # (D, h * d) <-> (h, d, D)
    lambda array, sizes: _split_heads(array.T, sizes),
    lambda array, sizes: _join_heads(array, sizes).T,
)


class Row(NamedTuple):
    """One weight. With `parts` it is the `part`-th of so many equal slices along axis 0."""

    path: str
    key: str
    layout: Layout = SAME
    part: int = 0
    parts: int = 1


Table = Mapping[str, tuple[Row, ...]]


class Repeats(NamedTuple):
    """How often the rows of a table are repeated."""

    num_layers: int = 0
    units: tuple = ()  # how many units each ResNet stage has


class Source(NamedTuple):
    """Where a foreign array lies: its key in the file, and its index in a stack of layers."""

    key: str
    index: int | None = None


# Names that some tool put around all names of a checkpoint, and that mean nothing.
WRAPPERS = (
    "module.",
    "model.",
    "_orig_mod.",
    "state_dict.",
    "state_dict_ema.",
    "model_ema.",
    "params.",
    "timm_model.",
)


def strip_wrappers(keys: Iterable[str]) -> dict[str, str]:
    """`{name without wrapping prefixes: key}`. A prefix goes only if every key carries it."""
    names = {key: key for key in keys}
    while names:
        wrapper = next((w for w in WRAPPERS if all(n.startswith(w) for n in names)), None)
        if wrapper is None:
            break
        names = {name.removeprefix(wrapper): key for name, key in names.items()}
    return names


def rename(names: Mapping[str, str], function: Callable[[str], str]) -> dict[str, str]:
    """Renames the keys of `{name: key}`, where no two may become one.

    Raises:
        ValueError: if they do. A checkpoint that has a weight twice has no right one.
    """
    renamed = {}
    for name, key in names.items():
        new = function(name)
        if new in renamed:
            raise ValueError(
                "A checkpoint must have every weight once. "
                f"Received: '{renamed[new]}' and '{key}', which are the same weight."
            )
        renamed[new] = key
    return renamed


def count(names: Iterable[str], pattern: str) -> int:
    """One more than the largest number that `pattern`'s group matches at the start of a name."""
    matches = filter(None, (re.match(pattern, name) for name in names))
    return 1 + max((int(match[1]) for match in matches), default=-1)


def count_units(names: Iterable[str], pattern: str, first: int) -> tuple[int, ...]:
    """Units per stage, from `pattern`'s two groups, which count from `first`."""
    units = {}
    for match in filter(None, (re.match(pattern, name) for name in names)):
        stage, unit = (int(number) - first for number in match.groups())
        units[stage] = max(units.get(stage, 0), unit + 1)
    return tuple(units.get(stage, 0) for stage in range(max(units, default=-1) + 1))


def our_repeats(paths: Iterable[str]) -> Repeats:
    """The repeats that our own variable paths speak of."""
    paths = list(paths)
    units = count_units(paths, r"stage_(\d+)_unit_(\d+)/", first=1)
    return Repeats(count(paths, r"block_(\d+)/"), units)


def expand(rows: Iterable[Row], repeats: Repeats) -> Iterator[Row]:
    """The rows with every placeholder filled in."""
    rows = tuple(rows)
    if any("{i}" in row.path for row in rows):
        numbers = [{"i": i} for i in range(repeats.num_layers)]
    elif any("{u}" in row.path for row in rows):
        numbers = [_unit(s, u) for s, n in enumerate(repeats.units) for u in range(n)]
    elif any("{s}" in row.path for row in rows):  # only the first unit of each stage
        numbers = [_unit(s, 0) for s in range(len(repeats.units))]
    else:
        return (yield from rows)
    for number in numbers:
        for row in rows:
            yield row._replace(path=row.path.format(**number), key=row.key.format(**number))


def _unit(stage, unit):
    return {"s": stage + 1, "u": unit + 1, "s0": stage, "u0": unit}


# Pairs of rows that every table needs.


def norm(path: str, key: str, names=("weight", "bias"), separator=".", layout=SAME) -> tuple:
    """The two vectors of a normalisation layer."""
    gamma, beta = (f"{key}{separator}{name}" for name in names)
    return Row(f"{path}/gamma", gamma, layout), Row(f"{path}/beta", beta, layout)


def dense(path: str, key: str, kernel=DENSE, bias=SAME, part=0, parts=1) -> tuple:
    """Kernel and bias of a PyTorch layer."""
    return (
        Row(f"{path}/kernel", f"{key}.weight", kernel, part, parts),
        Row(f"{path}/bias", f"{key}.bias", bias, part, parts),
    )


def fused_heads(path: str, names: tuple, key: str) -> tuple:
    """Projections to heads whose matrices PyTorch keeps below one another in one."""
    rows = (
        dense(f"{path}/{name}", key, HEADS_IN, HEADS_BIAS, part, len(names))
        for part, name in enumerate(names)
    )
    return tuple(row for pair in rows for row in pair)


def convolution(path: str, key: str) -> Row:
    """The kernel of a PyTorch convolution without bias."""
    return Row(f"{path}/kernel", f"{key}.weight", CONVOLUTION)


def resnet(stem_conv: str, stem_norm: str, unit: str, shortcut: str) -> dict[str, tuple]:
    """The groups of a hybrid's ResNet, of PyTorch's names for its parts."""
    ours, first = "stage_{s}_unit_{u}", "stage_{s}_unit_1"
    units = (
        (
            convolution(f"{ours}/conv{n}", f"{unit}.conv{n}"),
            *norm(f"{ours}/norm{n}", f"{unit}.norm{n}"),
        )
        for n in (1, 2, 3)
    )
    return {
        "stem": (convolution("stem_conv", stem_conv), *norm("stem_norm", stem_norm)),
        "units": tuple(row for rows in units for row in rows),
        "projections": (
            convolution(f"{first}/conv_proj", f"{shortcut}.conv"),
            *norm(f"{first}/norm_proj", f"{shortcut}.norm"),
        ),
    }


# Reading.


def match(
    table: Table, required: Iterable[str], names: Iterable[str], repeats: Repeats
) -> dict[str, tuple[Row, ...]]:
    """The rows of a table that a checkpoint's names fill, by group.

    Args:
        table: The format.
        required: Groups that must be there.
        names: The names in the checkpoint, as the table spells them.
        repeats: How many blocks and units there are.

    Returns:
        `{group: rows}`, without the groups that are absent.

    Raises:
        Unmatched: if a group is incomplete, or a name is left over.
    """
    names, required = set(names), set(required)
    matched, missing = {}, []
    for group, templates in table.items():
        # A required group of which there are none is missed by the names of its template.
        rows = tuple(expand(templates, repeats)) or templates
        keys = {row.key for row in rows}
        if group not in required and not keys & names:
            continue
        missing += sorted(keys - names)
        matched[group] = rows
    unknown = sorted(names - {row.key for rows in matched.values() for row in rows})
    if missing or unknown:
        raise Unmatched(missing, unknown)
    return matched


class Unmatched(Exception):
    """A checkpoint and a table do not fit. Holds the missing and the unknown names."""

    def __init__(self, missing: list[str], unknown: list[str]):
        super().__init__(missing, unknown)
        self.missing, self.unknown = missing, unknown

    def explained(
        self,
        format_name: str,
        sources: Mapping,
        kind: str = "Vision Transformer",
    ) -> ValueError:
        """The error for a user, with the names as they are in the file.

        Args:
            format_name: What the checkpoint was read as.
            sources: `{name in the table: Source}`.
            kind: What the checkpoint was to hold.
        """
        lines = [f"The checkpoint must hold a {kind} in {format_name} names."]
        if self.missing:
            lines.append(f"Missing: {self.missing}.")
        if self.unknown:
            lines.append(f"Unknown: {sorted({sources[name].key for name in self.unknown})}.")
        return ValueError(" ".join([*lines, *others.sentences(self.unknown)]))


def lazy_weights(
    matched: Mapping[str, tuple[Row, ...]],
    sources: Mapping[str, Source],
    arrays: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
) -> LazyWeights:
    """The weights of `matched`, under our paths, read from `arrays` when asked for."""
    rows = [row for rows in matched.values() for row in rows]
    return LazyWeights(arrays, {row.path: _recipe(row, sources[row.key], sizes) for row in rows})


def _recipe(row, source, sizes):
    def read(array):
        if source.index is not None:
            array = array[source.index]
        return row.layout.read(_part(array, row), sizes)

    return source.key, read


def _part(array, row):
    if row.parts == 1:
        return array
    length, rest = divmod(len(array), row.parts)
    if rest:
        raise ValueError(
            f"'{row.key}' must hold {row.parts} projections of equal size. "
            f"Received: shape={array.shape}"
        )
    return array[row.part * length : (row.part + 1) * length]


# Writing.


def foreign_arrays(
    table: Table, required: Iterable[str], weights: Mapping[str, np.ndarray], format_name: str
) -> dict[str, np.ndarray]:
    """`{key: array}` for all of `weights`, as the table says.

    Raises:
        ValueError: if the table has no place for a weight, or one is missing.
    """
    matched = _match_paths(table, set(required), weights, format_name)
    parts = {}
    for row in matched:
        array = row.layout.write(np.asarray(weights[row.path]), {})
        parts.setdefault(row.key, []).append((row.part, array))
    return {key: _joined(arrays) for key, arrays in parts.items()}


def _match_paths(table, required, weights, format_name):
    repeats, matched, missing = our_repeats(weights), [], []
    for group, templates in table.items():
        rows = tuple(expand(templates, repeats)) or templates
        if group in required or any(row.path in weights for row in rows):
            missing += [row.path for row in rows if row.path not in weights]
            matched += rows
    unknown = sorted(set(weights) - {row.path for row in matched})
    if missing or unknown:
        raise ValueError(
            f"The {format_name} format needs every weight of a model and has a place for none but "
            f"its own. Received: weights that it has no place for: {unknown}; missing: {missing}"
        )
    return matched


def _joined(arrays):
    ordered = [array for _, array in sorted(arrays, key=lambda item: item[0])]
    return ordered[0] if len(ordered) == 1 else np.concatenate(ordered)
