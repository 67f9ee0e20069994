"""Features of images: what a frozen model has before its head, computed once."""

import dataclasses
import hashlib

import keras
import numpy as np

from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.image_model import require_spec
from keras_vit.models.spec import ViTSpec
from pipelines import files
from pipelines.distribution.engine import Engine
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


def features(model, source, batch_size=64, distribute=None, extractor=None):
    """Features of all images of a source, in order.

    Args:
        model: An `ImageModel`.
        source: A `Source`.
        batch_size: Integer, over all devices.
        distribute: What `with pipelines.distribute(...) as d` gave, or None. All its processes must
            call this, and each gets all features.
        extractor: The `feature_model` of the model, if this is called often: a new one is compiled
            anew. None makes one.

    Returns:
        float32 `(n, D)`.
    """
    engine = distribute or Engine()
    spec = few_shot_view(model.spec)
    targets = Targets(INDEX, len(source.class_names))
    batches = evaluation_data(source, spec, batch_size, targets, engine)
    images = batches.map(lambda image, target, mask: image)
    values = engine.outputs(extractor or feature_model(model), images)
    return np.asarray(values, "float32")[: source.count]


def cached_features(model, source, folder, batch_size=64, distribute=None):
    """As `features`; a second time from a file.

    The file's name follows from the weights, the model's spec, the source's name and labels, and
    where each image comes from. It does not follow from the pixels: where images were changed in
    place, empty the folder.

    Args:
        model: An `ImageModel`.
        source: A `Source`.
        folder: Path of the folder of such files, or None for no cache. Several processes must all
            see it.
        batch_size: Integer.
        distribute: As of `features`.
    """
    engine = distribute or Engine()
    if folder is None:
        return features(model, source, batch_size, engine)
    path = files.join(folder, f"features-{_key(model, source, engine)}.npy")
    # As the chief finds it: if one process read and another computed, that one would wait for ever.
    if engine.gather([int(files.exists(path))])[0][0]:
        with files.open_to_read(path) as file:
            return np.load(file, allow_pickle=False)
    values = features(model, source, batch_size, engine)
    if engine.is_chief:
        files.make_folder(folder)
        with files.written(path) as file:
            np.save(file, values)
    engine.wait()
    return values


def few_shot_view(spec):
    """The spec with the view of the paper's few-shot evaluation: squashed, centre cropped."""
    view = dataclasses.replace(spec.preprocessing, crop_mode="squash", crop_fraction=CROP)
    return dataclasses.replace(spec, preprocessing=view)


def _key(model, source, engine):
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr(model.spec).encode())
    for variable, value in zip(model.weights, engine.fetch(model.weights), strict=True):
        digest.update(variable.path.encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    digest.update(f"{source.name} {source.count}".encode())
    digest.update(np.ascontiguousarray(source.labels).tobytes())
    # The parts of one file have its name, and may have the same labels.
    digest.update("\n".join(map(source.origin, range(source.count))).encode())
    return digest.hexdigest()
