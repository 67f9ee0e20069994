"""Features of images: what a frozen model has before its head, computed once."""

import dataclasses
import hashlib
import pathlib

import keras
import numpy as np

from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.image_model import require_spec
from keras_vit.models.spec import ViTSpec
from keras_vit.weights.atomic import atomic_write
from pipelines.feed.targets import INDEX, Targets
from pipelines.loading import evaluation_data

CROP = 224 / 256  # the paper's code squashes images to 256 x 256 and crops 224 x 224


def feature_model(model):
    """The part of a model before its head, with the same weights: images to `(B, D)`.

    With a hidden layer in the head, features are what that layer gives, as in the paper's code.

    Raises:
        ValueError: if the model gives no single vector an image.
    """
    spec = require_spec(model, "features", families=(ViTSpec, BiTSpec))
    outputs = model.get_layer("head").input if spec.include_top else model.output
    if len(outputs.shape) != 2:
        raise ValueError(
            "Features are one vector an image: build the model with a top, or with a `pooling`. "
            f"Received: output shape {tuple(outputs.shape)}"
        )
    return keras.Model(model.inputs, outputs)


def features(model, source, batch_size=64):
    """Features of all images of a source, in order.

    Args:
        model: An `ImageModel`.
        source: A `Source`.
        batch_size: Integer.

    Returns:
        float32 `(n, D)`.
    """
    spec = few_shot_view(model.spec)
    targets = Targets(INDEX, len(source.class_names))
    batches = evaluation_data(source, spec, batch_size, targets)
    images = batches.map(lambda image, target, mask: image)
    values = feature_model(model).predict(images, verbose=0)
    return np.asarray(values, "float32")[: source.count]


def cached_features(model, source, folder, batch_size=64):
    """As `features`; a second time from a file.

    The file's name follows from the weights, the model's spec, and the source's name and labels. It
    does not follow from the pixels: where images were changed in place, empty the folder.

    Args:
        model: An `ImageModel`.
        source: A `Source`.
        folder: Path of the folder of such files, or None for no cache.
        batch_size: Integer.
    """
    if folder is None:
        return features(model, source, batch_size)
    path = pathlib.Path(folder) / f"features-{_key(model, source)}.npy"
    if path.exists():
        return np.load(path, allow_pickle=False)
    values = features(model, source, batch_size)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        np.save(file, values)
    return values


def few_shot_view(spec):
    """The spec with the view of the paper's few-shot evaluation: squashed, centre cropped."""
    view = dataclasses.replace(spec.preprocessing, crop_mode="squash", crop_fraction=CROP)
    return dataclasses.replace(spec, preprocessing=view)


def _key(model, source):
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr(model.spec).encode())
    for variable in model.weights:
        digest.update(variable.path.encode())
        digest.update(np.ascontiguousarray(keras.ops.convert_to_numpy(variable)).tobytes())
    digest.update(f"{source.name} {source.count}".encode())
    digest.update(np.ascontiguousarray(source.labels).tobytes())
    return digest.hexdigest()
