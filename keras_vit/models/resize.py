"""The change of resolution: a new model with every weight carried over."""

import dataclasses

from keras_vit.layers import checks
from keras_vit.models import resample
from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.image_model import require_spec
from keras_vit.models.rebuild import rebuild
from keras_vit.models.spec import INTERPOLATIONS, ViTSpec


def resize(model, image_size=None, patch_size=None, interpolation=None):
    """Builds the model for another resolution (arXiv 2010.11929, section 3.2).

    Positions are resampled from the old grid of patches to the new one, rows as rows and columns as
    columns; the rows of prefix tokens stay as they are. A changed patch size resizes the patch
    kernel by FlexiViT's pseudo-inverse (arXiv 2212.08013). Everything else is copied: in a hybrid
    all but the positions on its feature map, in a BiT ResNet everything. Expect a lower accuracy
    until the new model has been fine-tuned.

    Args:
        model: An `ImageModel`, as the builders make it.
        image_size: Integer or `(height, width)` in pixels; None keeps the model's.
        patch_size: Integer or `(height, width)` in pixels; None keeps the model's. Not for hybrids.
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
    spec = require_spec(model, "resize", families=(ViTSpec, BiTSpec))
    if image_size is None and patch_size is None:
        raise ValueError(
            "`resize` needs an `image_size`, a `patch_size` or both. Received neither."
        )
    method = interpolation or getattr(spec, "interpolation", None)
    checks.one_of(method, "interpolation", (*INTERPOLATIONS, None))
    changes = {"image_size": image_size, "patch_size": patch_size}
    changes = {name: value for name, value in changes.items() if value is not None}
    if patch_size is not None:
        _check_patches_are_of_the_image(spec, patch_size)
    new_spec = dataclasses.replace(spec, **changes)

    def convert(path, value):
        return resample_variable(path, value, spec, new_spec, method)

    return rebuild(model, new_spec, convert, "resize")


def _check_patches_are_of_the_image(spec, patch_size):
    if spec.family == "bit" or spec.resnet is not None:
        raise ValueError(
            "The patch size can be changed where patches are cut from the image. A hybrid's are "
            "cut from feature maps, where resizing a kernel does not stand for resizing an image, "
            f"and a ResNet has none. Received: patch_size={patch_size!r}. Change the image size."
        )


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
