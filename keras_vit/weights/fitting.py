"""How the weights of a checkpoint become those of a model, decided before anything is read.

A plan has, for each variable of the model, where its value comes from and what is done to it. It is
made from shapes and facts alone, so that a checkpoint that does not fit is refused while the model
is still as it was.
"""

import dataclasses
import re
from collections.abc import Callable

import numpy as np

from keras_vit.models import resample
from keras_vit.models.resize import resample_variable
from keras_vit.weights import checkpoint as checkpoints
from keras_vit.weights.lazy import shape_of

HEAD = ("pre_logits/", "head/")
TABLE = re.compile(r"position_embedding(_\d+)?/table$")
POSITIONS = re.compile(r"(position_embedding(_\d+)?/(rows|columns)|relative_position/table)$")


@dataclasses.dataclass(frozen=True)
class Step:
    """One variable of the plan.

    Attributes:
        path: The variable's path in the model.
        sources: The checkpoint's paths that its value is made from.
        convert: Function of the arrays of `sources` to the value.
        how: What it does, in words; empty if the value is taken as it is.
    """

    path: str
    sources: tuple
    convert: Callable = lambda array: array
    how: str = ""


@dataclasses.dataclass(frozen=True)
class Plan:
    """Steps for the variables that are set, paths of those that stay fresh, and unused paths."""

    steps: tuple
    fresh: tuple
    unused: dict


def plan(checkpoint, spec, shapes, head, interpolation):
    """The plan that loads a checkpoint into a model.

    Args:
        checkpoint: A `Checkpoint`.
        spec: The spec of the model.
        shapes: `{path: shape}` of the model's variables.
        head: `"strict"` or `"reset"`.
        interpolation: Of positions.

    Returns:
        A `Plan`.

    Raises:
        ValueError: if the checkpoint does not fit.
    """
    check_facts(checkpoint.facts, spec)
    _check_grid(checkpoint)
    left = dict.fromkeys(checkpoint.weights)  # an ordered set: what no step has used yet
    fresh, unused = _split_head(left, spec, shapes, head, checkpoint)
    steps = []
    for path in shapes:
        if path not in fresh:
            steps.append(_step(path, checkpoint, spec, interpolation))
    for path in [path for step in steps for path in step.sources]:
        left.pop(path, None)
    forgone = {path: reason for path in left if (reason := _forgone(path, spec))}
    unused.update(forgone)
    left = left.keys() - forgone
    _check_complete(steps, left, checkpoint)
    _check_shapes(steps, shapes, checkpoint)
    return Plan(tuple(steps), tuple(fresh), unused)


def _forgone(path, spec):
    """Why a weight is none of the model's, if it serves a pooling that the model does without."""
    if path == "class_token/token" and not spec.class_token:
        return "the model has no class token"
    if path.startswith("map_pooling/") and spec.pooling != "map":
        return "the model does not pool by attention"
    return None


def check_facts(facts, spec):
    """Raises a ValueError if the checkpoint is of another model, or of other constants."""
    wrong = [
        f"{name}: {_shown(facts[name])} in the file, {_shown(wanted)} in the model"
        for name, wanted in _structure(facts, spec)
        if facts[name] != wanted
    ]
    if wrong:
        raise ValueError(
            f"The checkpoint must be of the model's kind. Received: {'; '.join(wrong)}"
        )
    if spec.family == "vit":
        _check_prefix(facts, spec)
        _check_constants(facts, spec)
    if bool(facts.get("folded")) != spec.folded:
        raise ValueError(
            "The kernels of the file and of the model must both be raw, or both be standardised "
            f"for good. Received: folded={bool(facts.get('folded'))} in the file, "
            f"folded={spec.folded} in the model. Load raw kernels into a model as the builders "
            "make it, and fold it then; `keras.saving.load_model` loads a folded one as it is."
        )


def _structure(facts, spec):
    """(name, what the model wants) for the facts that must agree as they are."""
    family = facts.get("family", "vit")
    if family != spec.family:
        raise ValueError(
            f"The checkpoint must be of the model's family. Received: {family!r} in the file, "
            f"{spec.family!r} in the model."
        )
    if spec.family == "bit":
        names = ("num_layers", "width")
    else:
        names = sorted(checkpoints.STRUCTURE - {"channels", "class_token", "num_registers"})
    for name in names:
        if name in facts:
            wanted = getattr(spec, name)
            if name == "layer_scale":  # the value that it started from is gone
                wanted = None if wanted is None else facts[name] or True
            yield name, wanted


def _check_prefix(facts, spec):
    registers, class_token = facts.get("num_registers", 0), facts.get("class_token", False)
    if registers != spec.num_registers or (spec.class_token and not class_token):
        raise ValueError(
            f"The checkpoint has {int(class_token) + registers} prefix tokens (class token: "
            f"{class_token}, registers: {registers}), the model {spec.prefix_tokens} (class token: "
            f"{spec.class_token}, registers: {spec.num_registers}). Build the model with the "
            "checkpoint's `class_token` and `num_registers`."
        )


def _check_constants(facts, spec):
    if facts.get("origin") is None:
        return
    theirs = checkpoints.constants(facts)
    ours = (spec.activation, spec.layer_norm_epsilon)
    other_stem = spec.resnet is not None and "google" in {facts["origin"], spec.origin}
    if theirs != ours or (other_stem and facts["origin"] != spec.origin):
        raise ValueError(
            f"The checkpoint was made with the constants of {facts['origin']!r} (activation "
            f"{theirs[0]!r}, layer norm epsilon {theirs[1]:g}), the model with those of "
            f"{spec.origin!r} (activation {ours[0]!r}, epsilon {ours[1]:g}); its outputs would "
            f"differ. Build the model with `origin={facts['origin']!r}`, or let a named "
            "constructor do it: `weights=`."
        )


def _split_head(left, spec, shapes, head, checkpoint):
    """Takes the head out of `left` where it is not loaded: (fresh paths, unused paths)."""
    ours = [path for path in shapes if path.startswith(HEAD)]
    theirs = [path for path in left if path.startswith(HEAD)]
    if ours and head == "strict":
        _check_head(ours, theirs, shapes, checkpoint)
        _check_pooling(checkpoint, spec)
        return [], {}
    reason = "the model keeps its own head" if spec.include_top else "the model has no top"
    for path in theirs:
        left.pop(path)
    return ours, dict.fromkeys(theirs, reason)


def _check_head(ours, theirs, shapes, checkpoint):
    found = {path: shape_of(checkpoint.weights, path) for path in theirs}
    wanted = {path: tuple(shapes[path]) for path in ours}
    if found != wanted:
        raise ValueError(
            f"The checkpoint's head must be the model's. Received: {_shown(found) or 'no head'} in "
            f"the file, {_shown(wanted)} in the model. Pass `head='reset'` to load everything but "
            "the head, or build the model with the file's `classes` and `representation_size`."
        )


def _check_pooling(checkpoint, spec):
    """A classifier is of use to what it was trained to read alone."""
    pooling = checkpoint.facts.get("pooling")
    if checkpoint.pooling_is_told and pooling not in (None, spec.pooling):
        raise ValueError(
            f"The checkpoint's classifier reads tokens pooled by {pooling!r}, the model's by "
            f"{spec.pooling!r}. Build the model with `pooling={pooling!r}`, or pass `head='reset'` "
            "to load everything but the head."
        )


def _step(path, checkpoint, spec, interpolation):
    source_spec = checkpoint.facts.get("spec")
    if TABLE.search(path):
        return _table_step(path, checkpoint, spec, interpolation)
    if source_spec is not None and POSITIONS.search(path) and source_spec.grid != spec.grid:
        how = _resampled(source_spec.grid, spec.grid, interpolation)
        return Step(
            path,
            (path,),
            lambda array: resample_variable(path, array, source_spec, spec, interpolation),
            how,
        )
    if path == _first_kernel(spec) and path in checkpoint.weights:
        channels = shape_of(checkpoint.weights, path)[2]
        if channels != spec.channels:
            shared = "in turn, divided among the copies of each"
            rule = "summed" if spec.channels < channels else shared
            how = f"channels {channels} to {spec.channels}: {rule}"
            return Step(path, (path,), lambda array: adapt_channels(array, spec.channels), how)
    if path in ("class_token/token", "register_tokens/tokens"):
        return _token_step(path, checkpoint, spec)
    return Step(path, (path,))


def adapt_channels(kernel, channels):
    """A kernel `(kh, kw, C, D)` for another number of channels.

    More channels are the old ones in turn, each divided by the number of its copies, so that an
    image whose channels are repeated is answered as the original. Fewer are sums of old ones, taken
    in turn: one is the sum of all, which answers to grey as the original does to grey in every
    channel.
    """
    old = kernel.shape[2]
    if channels > old:
        of = np.arange(channels) % old
        copies = np.bincount(of).astype("float32")
        return kernel[:, :, of] / copies[of, None]
    if channels == old:
        return kernel
    return np.stack([kernel[:, :, c::channels].sum(axis=2) for c in range(channels)], axis=2)


def _first_kernel(spec):
    """The kernel that sees the image's channels."""
    patches_of_image = spec.family == "vit" and spec.resnet is None
    return "patch_embedding/kernel" if patches_of_image else "stem_conv/kernel"


# Positions.


def _check_grid(checkpoint):
    table = checkpoints.POSITIONS
    if table in checkpoint.weights and checkpoint.position_grid is None:
        rows = shape_of(checkpoint.weights, table)[1]
        raise ValueError(
            f"The grid of the checkpoint's position table cannot be told from its {rows} rows and "
            f"{checkpoint.prefix_tokens} prefix tokens. Pass `source_grid=(rows, columns)`, the "
            "image size that it was made for divided by the patch size."
        )


def _table_step(path, checkpoint, spec, interpolation):
    """The step of a position table: rows of prefix tokens by token, patches by the grid."""
    grid = checkpoint.position_grid
    if grid is None:
        return Step(path, (path,))  # missing, which is found later
    held = checkpoint.prefix_tokens if checkpoint.facts["class_token_position"] else 0
    kept = _prefix_rows(checkpoint, spec, held)
    if grid == spec.grid and kept == list(range(held)):
        return Step(path, (path,))

    def convert(table):
        patches = resample.resample_positions(table[:, held:], grid, spec.grid, 0, interpolation)
        zeros = np.zeros_like(table[:, :1])
        rows = [zeros if row is None else table[:, row : row + 1] for row in kept]
        return np.concatenate([*rows, patches], axis=1)

    how = [] if grid == spec.grid else [_resampled(grid, spec.grid, interpolation)]
    if kept != list(range(held)):
        how.append(f"{held} rows of prefix tokens to {len(kept)}")
    return Step(path, (path,), convert, ", ".join(how))


def _prefix_rows(checkpoint, spec, held):
    """For each prefix token of the model that has a position: its row in the file, or None."""
    if not spec.class_token_position:
        return []
    skipped = int(checkpoint.facts["class_token"]) - int(spec.class_token)
    return [token + skipped if held else None for token in range(spec.prefix_tokens)]


def _token_step(path, checkpoint, spec):
    """A prefix token; it takes up its position where the model has no row for it."""
    table = "position_embedding/table"
    folds = checkpoint.facts["class_token_position"] and not spec.class_token_position
    if not folds or table not in checkpoint.weights:
        return Step(path, (path,))
    first = int(checkpoint.facts["class_token"]) if path.startswith("register") else 0
    return Step(
        path,
        (path, table),
        lambda token, rows: token + rows[:, first : first + token.shape[1]],
        "its position added, since the model has none for it",
    )


def _resampled(old, new, interpolation):
    return f"grid {old[0]}x{old[1]} to {new[0]}x{new[1]}, {interpolation}"


# Completeness.


def _check_complete(steps, left, checkpoint):
    missing = [p for step in steps for p in step.sources if p not in checkpoint.weights]
    if missing or left:
        raise ValueError(
            "Every weight of the model must be in the file and every weight of the file in the "
            f"model. Received: missing from the file: {sorted(set(missing))}; not in the model: "
            f"{sorted(left)}"
        )


def _check_shapes(steps, shapes, checkpoint):
    wrong = []
    for step in steps:
        stand_ins = [
            np.broadcast_to(np.float32(0), shape_of(checkpoint.weights, path))
            for path in step.sources
        ]
        if hasattr(checkpoint.weights, "check_type"):
            for path in step.sources:
                checkpoint.weights.check_type(path)
        shape = tuple(step.convert(*stand_ins).shape) if step.how else stand_ins[0].shape
        if shape != tuple(shapes[step.path]):
            wrong.append(
                f"{step.path} {shape} in the file, {tuple(shapes[step.path])} in the model"
            )
    if wrong:
        raise ValueError(f"Shapes must agree. Received: {'; '.join(wrong)}")


def _shown(value):
    if isinstance(value, dict):
        return ", ".join(f"{path} {tuple(shape)}" for path, shape in value.items())
    return repr(value)
