"""Checkpoints in Keras's own formats, saved by a model of this library."""

import dataclasses
import re

import keras
import numpy as np

from keras_vit.layers import initial_values
from keras_vit.models.build import build_model
from keras_vit.models.image_spec import ImageSpec
from keras_vit.weights.checkpoint import Checkpoint

KINDS = ("weights.h5", "keras")


def read(path, kind, spec):
    """The checkpoint in a Keras file.

    A `.keras` file brings its spec. A `.weights.h5` file has only arrays: it is taken to be of the
    model's own spec but for its head, channels and grid, which the shapes tell.

    Args:
        path: The file.
        kind: `"keras"` or `"weights.h5"`.
        spec: The spec of the model that it is to be loaded into.

    Returns:
        A `Checkpoint` whose fact `spec` is the file's spec.

    Raises:
        ValueError: if it is not the file of a model of this library.
    """
    if kind == "keras":
        with initial_values.skipped():
            model = keras.saving.load_model(path, compile=False)
        if not isinstance(getattr(model, "spec", None), ImageSpec):
            raise ValueError(
                "A `.keras` file must be that of a model made by keras_vit, which knows its spec. "
                f"Received: path='{path}', a {type(model).__name__}"
            )
    else:
        with initial_values.skipped():
            model = build_model(_spec_of_arrays(path, spec))
        model.load_weights(path)
    weights = {v.path: keras.ops.convert_to_numpy(v) for v in model.weights}
    facts = {**model.spec.to_dict(), "spec": model.spec}
    facts["preprocessing"] = model.spec.preprocessing
    return Checkpoint(weights, facts, getattr(model.spec, "grid", None))


def _spec_of_arrays(path, spec):
    """The model's spec with what the shapes of the arrays say."""
    shapes = _shapes(path)
    known = {"include_top": False}
    tops = [shapes[name] for name in ("dense/0", "dense_1/0") if name in shapes]
    if tops:
        known.update(include_top=True, classes=tops[-1][-1])
    if spec.family == "vit":
        known["representation_size"] = tops[0][-1] if len(tops) == 2 else None
        if spec.pooling is None and tops:  # which the head reads, no array tells
            known["pooling"] = "token" if spec.class_token else "avg"
        known["image_size"] = _image_size(path, shapes, spec)
    hybrid = getattr(spec, "resnet", None) is not None or spec.family == "bit"
    first = "std_conv2d/0" if hybrid else "patch_embedding/0"
    if first not in shapes:
        raise ValueError(
            "A `.weights.h5` file must be one that such a model of this library saved. "
            f"Received: path='{path}', which has no '{first}' among {sorted(shapes)[:8]}"
        )
    known["channels"] = shapes[first][2]
    if spec.class_names is not None and known.get("classes", spec.classes) != spec.classes:
        known["class_names"] = None
    return dataclasses.replace(spec, **known)


def _shapes(path):
    """`{layer/index: shape}` of the arrays, and `{layer/grid: array}`."""
    import h5py  # Keras needs it too, but not until a file is read

    found = {}

    def visit(name, item):
        match = re.fullmatch(r"layers/(\w+)/vars/(\w+)", name)
        if match and hasattr(item, "shape"):
            found["/".join(match.groups())] = item[:] if match[2] == "grid" else item.shape

    with h5py.File(path) as file:
        file.visititems(visit)
    if not found:
        raise ValueError(
            "A `.weights.h5` file must be one that a model of this library saved. "
            f"Received: path='{path}', which has no layers"
        )
    return found


def _image_size(path, shapes, spec):
    grid = shapes.get("position_embedding/grid")
    if grid is None and "position_embedding2_d/0" in shapes:
        grid = (shapes["position_embedding2_d/0"][0], shapes["position_embedding2_d/1"][0])
    if grid is None or tuple(grid) == spec.grid:
        return spec.image_size
    if spec.resnet is not None:
        raise ValueError(
            f"The positions of the file are for a grid of {grid[0]}x{grid[1]}, the hybrid's for "
            f"{spec.grid[0]}x{spec.grid[1]}. Received: path='{path}'. Build the hybrid at the "
            "file's image size, load, and use `keras_vit.resize`."
        )
    return tuple(int(n * p) for n, p in zip(np.asarray(grid), spec.patch_size, strict=True))
