"""The change of resolution: a new model with every weight carried over."""

import dataclasses

import keras

from keras_vit.layers import checks
from keras_vit.models import resample
from keras_vit.models.image_model import require_spec
from keras_vit.models.spec import INTERPOLATIONS
from keras_vit.models.vision_transformer import build_vit


def resize(model, image_size=None, patch_size=None, interpolation=None):
    """Builds the model for another resolution (arXiv 2010.11929, section 3.2).

    Positions are resampled from the old grid of patches to the new one, rows as rows and columns as
    columns; the rows of prefix tokens stay as they are. A changed patch size resizes the patch
    kernel by FlexiViT's pseudo-inverse (arXiv 2212.08013). Everything else is copied. Expect a
    lower accuracy until the new model has been fine-tuned.

    Args:
        model: An `ImageModel`, as the builders make it.
        image_size: Integer or `(height, width)` in pixels; None keeps the model's.
        patch_size: Integer or `(height, width)` in pixels; None keeps the model's.
        interpolation: Of positions: `"bilinear"` (corner-aligned, the paper's code),
            `"bicubic_antialias"` (timm) or `"bicubic"` (Hugging Face). None is what the model's
            origin does.

    Returns:
        A new model, not compiled. The old one is left as it was.

    Raises:
        ValueError: if the model has no spec, the sizes do not fit, or the model has other
            variables than its spec describes.

    Example:

    >>> larger = keras_vit.resize(model, image_size=(384, 512))
    """
    spec = require_spec(model, "resize")
    if image_size is None and patch_size is None:
        raise ValueError(
            "`resize` needs an `image_size`, a `patch_size` or both. Received neither."
        )
    method = interpolation or spec.interpolation
    checks.one_of(method, "interpolation", INTERPOLATIONS)
    _check_begins_at_images(model)
    new_spec = dataclasses.replace(
        spec,
        image_size=spec.image_size if image_size is None else image_size,
        patch_size=spec.patch_size if patch_size is None else patch_size,
    )
    new_model = build_vit(new_spec, name=model.name)
    targets = {variable.path: variable for variable in new_model.weights}
    sources = {variable.path: variable for variable in model.weights}
    _check_same_paths(sources, targets)
    for path, source in sources.items():
        value = keras.ops.convert_to_numpy(source)
        targets[path].assign(resample_variable(path, value, spec, new_spec, method))
    _copy_trainable(model, new_model)
    return new_model


def resample_variable(path, value, spec, new_spec, method):
    """The value of one variable for another resolution.

    Args:
        path: The variable's path, which says what it is.
        value: NumPy array, the variable's value at the resolution of `spec`.
        spec: The `ViTSpec` that the value belongs to.
        new_spec: The `ViTSpec` that it is wanted for.
        method: Interpolation of positions.
    """
    layer, _, name = path.rpartition("/")
    (rows, columns), (new_rows, new_columns) = spec.grid, new_spec.grid
    if layer.endswith("relative_position") and name == "table":
        return resample.resample_relative(value, spec.grid, new_spec.grid, method)
    if layer.startswith("position_embedding") and name == "table":
        prefix = spec.position_prefix
        return resample.resample_positions(value, spec.grid, new_spec.grid, prefix, method)
    if layer.startswith("position_embedding") and name == "rows":
        return resample.resample_axis(value, rows, new_rows, method)
    if layer.startswith("position_embedding") and name == "columns":
        return resample.resample_axis(value, columns, new_columns, method)
    if path == "patch_embedding/kernel" and spec.patch_size != new_spec.patch_size:
        return resample.resample_patch_kernel(value, new_spec.patch_size)
    return value


def _check_begins_at_images(model):
    if len(model.inputs) != 1 or model.get_layer(index=1).name not in (
        "pixel_normalization",
        "patch_embedding",
    ):
        raise ValueError(
            "`resize` rebuilds the model from its image input, but this one was built on an "
            "`input_tensor` with layers before it. Resize a model built without them, and put the "
            "layers before the new one."
        )


def _check_same_paths(sources, targets):
    unknown, missing = sorted(sources.keys() - targets), sorted(targets.keys() - sources)
    if unknown or missing:
        raise ValueError(
            "The model's variables are not those that its spec describes, as after quantisation, "
            "LoRA or surgery; resize it before them. "
            f"Received: additional variables {unknown}, missing variables {missing}"
        )


def _copy_trainable(model, new_model):
    """What was frozen stays frozen, whole layers and single variables alike."""
    for layer in model.layers:
        new_model.get_layer(layer.name).trainable = layer.trainable
    for variable, new_variable in zip(model.weights, new_model.weights, strict=True):
        new_variable.trainable = variable.trainable
