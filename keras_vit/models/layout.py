"""Which device holds which part of each variable, for Keras's distribution on JAX."""

import math
import re

import keras

# Megatron's pairs (arXiv 1909.08053, section 3): the first product of a branch is split by columns,
# here by heads or by the MLP's width, the second by rows, so that one sum over the devices ends
# each branch. All else is whole on every device.
MODEL_AXES = {
    r"(?:.*/)?attention/(?:query|key|value)/kernel": (None, "model", None),  # (D, h, d)
    r"(?:.*/)?attention/(?:query|key|value)/bias": ("model", None),  # (h, d)
    r"(?:.*/)?attention/output/kernel": ("model", None, None),  # (h, d, D)
    r"(?:.*/)?mlp/hidden/kernel": (None, "model"),  # (D, M)
    r"(?:.*/)?mlp/hidden/bias": ("model",),  # (M,)
    r"(?:.*/)?mlp/output/kernel": ("model", None),  # (M, D)
}

# Fully sharded: smaller variables are whole on every device, as the wait for each other's parts
# would cost more than the memory is worth.
SMALLEST_SHARDED = 4096


def layout_map(model, mesh):
    """The `keras.distribution.LayoutMap` of a model, for `keras.distribution.ModelParallel`.

    What it splits goes by the names of the mesh's axes. An axis `"model"` splits the attention
    heads and the MLPs of every block; it must divide both. A mesh of `"batch"` alone splits every
    variable of 4,096 numbers or more along its longest axis that divides: fully sharded data
    parallelism, which saves memory and changes no product. Optimizer slots follow their variables.

    Variables get their places when they are made, so the map is needed before the model that
    trains: it is made of another model of the same sizes, as in the example. Where even one device
    could not hold it, `with jax.default_device(jax.local_devices(backend="cpu")[0])` makes it on
    the host. `pipelines.distribute("model:2x2")` needs no other model.

    Args:
        model: An `ImageModel`, or any Keras model of the layers of `keras_vit`.
        mesh: A `keras.distribution.DeviceMesh` with an axis `"batch"`, `"model"` or both.

    Returns:
        A `keras.distribution.LayoutMap`. Each rule matches a variable of the model, and no variable
        matches two.

    Raises:
        ValueError: if the backend is not JAX, or the mesh does not fit the model.

    Example:

    >>> mesh = keras.distribution.DeviceMesh((2, 2), ["batch", "model"])
    >>> sizes = keras_vit.ViT_B16(weights=None)
    >>> distribution = keras.distribution.ModelParallel(
    ...     layout_map=keras_vit.layout_map(sizes, mesh), batch_dim_name="batch")
    >>> with distribution.scope():
    ...     model = keras_vit.ViT_B16(weights=None)
    """
    if keras.backend.backend() != "jax":
        raise ValueError(
            "`layout_map` needs the JAX backend: on the others Keras splits no variables. "
            f"Received: backend={keras.backend.backend()!r}"
        )
    axes = variable_axes(model, dict(zip(mesh.axis_names, mesh.shape, strict=True)))
    rules = keras.distribution.LayoutMap(mesh)
    for rule, split in _rules(axes).items():
        if any(split):
            rules[rule] = split
    return rules


def variable_axes(model, mesh_shape):
    """`{path: the mesh's axis or None for each axis of the variable}` of all variables of a model.

    Args:
        model: As of `layout_map`.
        mesh_shape: `{axis: number of devices}`.

    Raises:
        ValueError: if the mesh does not fit the model.
    """
    shapes = {variable.path: tuple(variable.shape) for variable in model.variables}
    axes = {path: _axes(path, shape, mesh_shape) for path, shape in shapes.items()}
    if not any(any(names) for names in axes.values()):
        raise ValueError(
            "The mesh must split something: an axis 'model' the attention heads and MLPs, 'batch' "
            f"variables of {SMALLEST_SHARDED:,} numbers or more that it divides. "
            f"Received: mesh={mesh_shape}, which splits nothing of model={model!r}"
        )
    _check_divides(shapes, axes, mesh_shape)
    return axes


def axes_of(path, shape, mesh_shape):
    """The same for one variable of this path and shape."""
    axes = _axes(path, shape, mesh_shape)
    _check_divides({path: shape}, {path: axes}, mesh_shape)
    return axes


def _axes(path, shape, mesh_shape):
    if "model" in mesh_shape:
        rules = (axes for rule, axes in MODEL_AXES.items() if re.fullmatch(rule, path))
        return next(rules, (None,) * len(shape))
    if "batch" in mesh_shape:
        return _longest_axis(shape, mesh_shape["batch"])
    raise ValueError(
        "The mesh must have an axis 'batch', which splits images and variables, or 'model', which "
        f"splits heads and MLPs. Received: axes={tuple(mesh_shape)}"
    )


def _longest_axis(shape, devices):
    """The axes that split a variable of this shape over so many devices, its longest that can."""
    able = [k for k, size in enumerate(shape) if size % devices == 0]
    axes = [None] * len(shape)
    if able and math.prod(shape) >= SMALLEST_SHARDED:
        axes[max(able, key=lambda k: shape[k])] = "batch"
    return tuple(axes)


def _rules(axes):
    """`{pattern: axes}`, one rule for a variable that all blocks have, if they agree."""
    rules, groups = {}, {}
    for path in axes:
        groups.setdefault(re.sub(r"block_\d+", r"block_\\d+", re.escape(path)), []).append(path)
    for pattern, paths in groups.items():
        if len({axes[path] for path in paths}) == 1:
            rules[pattern] = axes[paths[0]]
        else:
            rules.update({re.escape(path): axes[path] for path in paths})
    return rules


def _check_divides(shapes, axes, mesh_shape):
    split = [shapes[path][names.index("model")] for path, names in axes.items() if "model" in names]
    common = math.gcd(*split)
    if split and common % mesh_shape["model"]:
        sizes = [str(n) for n in range(1, common + 1) if common % n == 0]
        raise ValueError(
            "The mesh's axis 'model' must divide the number of heads and the width of the MLPs. "
            f"Received: {mesh_shape['model']} devices, for numbers of {sorted(set(split))}. "
            f"Sizes that divide: {', '.join(sizes)}."
        )
