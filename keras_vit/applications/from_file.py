"""The model that a checkpoint holds, whatever its sizes."""

import dataclasses

import keras

from keras_vit.layers import checks
from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.build import build_model
from keras_vit.models.image_model import require_spec
from keras_vit.models.resize import resize
from keras_vit.models.resnet_stem import patch_stride
from keras_vit.models.spec import ViTSpec
from keras_vit.weights import files, loading

SPECS = {"vit": ViTSpec, "bit": BiTSpec}


def model_from_file(path, image_size=None, source_grid=None):
    """Builds the model that a file describes, and loads it.

    Args:
        path: A `.keras`, `.npz` or `.safetensors` file, or a folder with the latter, whose names
            and shapes tell every size.
        image_size: `(height, width)` of the model; None is that of the file.
        source_grid: `(rows, columns)` of the file's positions, where it does not tell.

    Returns:
        `(model, report)`, the report None for a `.keras` file.

    Raises:
        ValueError: if the file does not tell everything; the message says what else to give.
    """
    with files.open_checkpoint(path) as file:
        if file.kind == "keras":
            return _own_model(path, image_size, source_grid), None
        if file.kind == "weights.h5":
            raise ValueError(
                "A `.weights.h5` file has no sizes: build its model by a constructor, with "
                f"`weights=`. Received: path='{path}'"
            )
        found = files.read(file)
        if source_grid is not None:
            found = found.with_grid(checks.pair(source_grid, "source_grid"))
        model = build_model(spec_of(found, image_size, path))
        return model, loading.load_checkpoint(model, found, path)


def spec_of(found, image_size=None, path="the checkpoint"):
    """The spec of a `Checkpoint`.

    Args:
        found: The `Checkpoint`.
        image_size: As for `model_from_file`.
        path: What the checkpoint is called in errors.
    """
    cls = SPECS[found.facts.get("family", "vit")]
    fields = {field.name for field in dataclasses.fields(cls)}
    facts = {key: value for key, value in found.facts.items() if key in fields}
    if facts.get("layer_scale") is True:
        facts["layer_scale"] = 1.0  # where it started is gone; the file has where it is
    if facts.get("classes") is None:  # no head
        facts.update(classes=1000, include_top=False)
        facts.pop("class_names", None)
        facts.pop("representation_size", None)
    if facts.get("preprocessing") is not None:
        facts["preprocessing"] = loading.preprocessing_of(facts["preprocessing"], facts["channels"])
    facts["image_size"] = image_size or facts.get("image_size") or _image_size(found, cls, path)
    return cls(**facts)


def _image_size(found, cls, path):
    if cls is BiTSpec:
        return (224, 224)  # any will do
    if found.position_grid is None:
        raise ValueError(
            "The file does not tell the size of its images. Give the grid of its positions, "
            f"`source_grid=(rows, columns)`, or without positions an `image_size`. "
            f"Received: path='{path}'"
        )
    stride = patch_stride(found.facts["patch_size"], found.facts.get("resnet"))
    sides = zip(found.position_grid, stride, strict=True)
    return tuple(patches * pixels for patches, pixels in sides)


def _own_model(path, image_size, source_grid):
    if source_grid is not None:
        raise ValueError(
            "A `.keras` file knows the grid of its positions: leave `source_grid` out. "
            f"Received: source_grid={source_grid!r}"
        )
    model = keras.saving.load_model(path, compile=False)
    spec = require_spec(model, "model_from_file", families=tuple(SPECS.values()))
    if image_size is None or tuple(image_size) == spec.image_size:
        return model
    return resize(model, image_size=image_size)
