"""Loading a file of any known format into a model, with an account of every weight."""

import dataclasses

import keras
import numpy as np

from keras_vit.layers import checks
from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.image_model import require_spec
from keras_vit.models.preprocessing import Preprocessing
from keras_vit.models.spec import INTERPOLATIONS, ViTSpec
from keras_vit.weights import files, keras_files
from keras_vit.weights.fitting import plan
from keras_vit.weights.report import Adapted, LoadReport

HEADS = ("strict", "reset")


def load_weights(model, source, *, head="strict", interpolation=None, source_grid=None):
    """Loads weights into a model, or refuses and leaves the model as it was.

    It reads Google's `.npz` (Vision Transformer, big_vision, BiT), `.safetensors` of timm and of
    transformers (a file or a folder), and Keras's `.weights.h5` and `.keras` of this library's
    models. Every variable and every key is accounted for. Positions are resampled to the model's
    grid, and input channels adapted.

    Args:
        model: An `ImageModel`.
        source: Path of a file or folder.
        head: What becomes of the classifier and the pre-logits: `"strict"` loads them, and both
            must match; `"reset"` leaves the model's own as they are. Of no effect on a model
            without a top.
        interpolation: Of positions: `"bilinear"`, `"bicubic_antialias"` or `"bicubic"`; None is
            what the model's origin does.
        source_grid: `(rows, columns)` of patches that the file's positions are for, where the file
            does not tell.

    Returns:
        A `LoadReport`: loaded, adapted, fresh and unused weights. `print(report)` shows it.

    Raises:
        ValueError: if the file is not a checkpoint of this model.
        FileNotFoundError: if there is no such file.

    Example:

    >>> model = keras_vit.ViT_B16(weights=None, classes=10, input_shape=(384, 512, 3))
    >>> print(keras_vit.load_weights(model, "ViT-B_16.npz", head="reset"))
    """
    spec = require_spec(model, "load_weights", families=(ViTSpec, BiTSpec))
    checks.one_of(head, "head", HEADS)
    checks.one_of(interpolation, "interpolation", (*INTERPOLATIONS, None))
    with files.open_checkpoint(source) as file:
        checkpoint = read_checkpoint(file, spec, source_grid)
        file.verify()
        return load_checkpoint(model, checkpoint, source, head=head, interpolation=interpolation)


def read_checkpoint(file, spec, source_grid=None):
    """The `Checkpoint` of an opened file, Keras's own formats included.

    Args:
        file: From `files.open_checkpoint`.
        spec: The spec of the model that it is for.
        source_grid: The grid of its positions, where the file does not tell.
    """
    if file.kind in keras_files.KINDS:
        if source_grid is not None:
            raise ValueError(
                "Keras's own files know the grid of their positions: leave `source_grid` out. "
                f"Received: source_grid={source_grid!r} for '{file.path}'"
            )
        return keras_files.read(file.path, file.kind, spec)
    checkpoint = files.read(file, getattr(spec, "num_heads", None))
    if source_grid is not None:
        checkpoint = checkpoint.with_grid(checks.pair(source_grid, "source_grid"))
    return checkpoint


def load_checkpoint(model, checkpoint, source, *, head="strict", interpolation=None):
    """Loads a `Checkpoint` into a model; see `load_weights`."""
    spec = model.spec
    variables = {v.path: v for v in model.weights if _is_ours(v.path)}
    shapes = {path: tuple(variable.shape) for path, variable in variables.items()}
    method = interpolation or getattr(spec, "interpolation", None)
    todo = plan(checkpoint, spec, shapes, head, method)
    new_spec = _with_facts(spec, checkpoint.facts, with_head=_loads_head(todo))
    _check_pixels(spec, new_spec)
    # Nothing below can fail: a model is never left with some of the weights.
    loaded, adapted, zero_head = [], [], False
    for step in todo.steps:
        arrays = [checkpoint.weights[path] for path in step.sources]
        value = step.convert(*arrays)
        variables[step.path].assign(_handed_over(value))
        if step.path == "head/kernel":
            zero_head = not np.any(value)
        if step.how:
            adapted.append(Adapted(step.path, arrays[0].shape, value.shape, step.how))
        else:
            loaded.append(step.path)
    model.spec = new_spec
    return LoadReport(
        source=str(source),
        loaded=tuple(loaded),
        adapted=tuple(adapted),
        fresh=todo.fresh,
        unused={**checkpoint.unused, **todo.unused},
        zero_head=zero_head,
    )


class _HandedOver:
    """An array that nobody else has. TensorFlow copies NumPy's arrays before it takes them."""

    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        return self._array if dtype is None else self._array.astype(dtype, copy=False)


def _handed_over(array):
    return _HandedOver(array) if keras.backend.backend() == "tensorflow" else array


def _is_ours(path):
    """Whether a variable is of this library's layers, and not of one before an `input_tensor`."""
    first = path.split("/")[0]
    return first.startswith(("block_", "stage_", "stem_", "position_embedding")) or first in (
        "patch_embedding",
        "class_token",
        "register_tokens",
        "norm",
        "map_pooling",
        "pre_logits",
        "head",
    )


def _loads_head(todo):
    return any(step.path == "head/kernel" for step in todo.steps)


def _with_facts(spec, facts, with_head):
    """The spec with facts about the weights: of the pixels, and of the head's classes."""
    known = {}
    if facts.get("preprocessing") is not None:
        known["preprocessing"] = preprocessing_of(facts["preprocessing"], spec.channels)
    if with_head and facts.get("class_names") is not None:
        known["class_names"] = facts["class_names"]
    return dataclasses.replace(spec, **known)


def _check_pixels(spec, new_spec):
    """The constants of a layer that normalises pixels are part of a built model."""
    if spec.include_preprocessing and not _same_pixels(spec, new_spec):
        model, file = spec.preprocessing, new_spec.preprocessing
        raise ValueError(
            "The model normalises pixels itself, with other constants than the file's. Received: "
            f"mean={file.mean}, std={file.std} in the file, mean={model.mean}, std={model.std} in "
            "the model. Build it by a named constructor with `weights=` and "
            "`include_preprocessing=True`, or with `include_preprocessing=False`."
        )


def _same_pixels(*specs):
    moments = [
        np.broadcast_to(getattr(spec.preprocessing, name), spec.channels)
        for spec in specs
        for name in ("mean", "std")
    ]
    return np.array_equal(moments[:2], moments[2:])


def preprocessing_of(facts, channels):
    """The `Preprocessing` of a file, for a number of channels.

    Means and deviations of other channels than the model's become their average.
    """
    if not isinstance(facts, Preprocessing):
        facts = Preprocessing(**facts)
    averaged = {
        name: (float(np.mean(values)),)
        for name, values in (("mean", facts.mean), ("std", facts.std))
        if len(values) not in (1, channels)
    }
    return dataclasses.replace(facts, **averaged)
