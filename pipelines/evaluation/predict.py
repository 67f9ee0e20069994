"""Photographs to the names of what they show."""

import glob
import pathlib

import keras
import numpy as np

import keras_vit
from keras_vit.applications.class_names import class_names as read_class_names
from keras_vit.layers import checks
from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.image_model import require_spec
from keras_vit.models.spec import ViTSpec
from pipelines.logits import activation_of_logits


def predict(model, images, *, top=5, class_names=None, batch_size=32):
    """Classifies image files, resized and cropped as the model was evaluated.

    Args:
        model: A model made by keras_vit, with its classifier.
        images: Paths of images and of folders, or patterns such as `"photos/*.jpg"`.
        top: Integer, how many classes of each image.
        class_names: Names of the classes, as for `keras_vit.decode_predictions`; None is the
            model's own, or without those "class 0", "class 1" and so on.
        batch_size: Integer, images in memory at once.

    Yields:
        `(path, [(identifier, name, probability), ...])` of each image, likeliest class first.

    Raises:
        ValueError: if an image cannot be read (the message has its path), or the model has no
            trained classifier.

    Example:

    >>> for path, best in predict(model, ["photos/"], top=1):
    ...     print(path, best[0][1])
    """
    spec = require_spec(model, "predict", families=(ViTSpec, BiTSpec))
    checks.positive_integer(batch_size, "batch_size")
    names = _names(spec, class_names)
    paths = image_files(images)
    for start in range(0, len(paths), batch_size):
        batch = paths[start : start + batch_size]
        pixels = np.stack([read_view(path, spec) for path in batch])
        decoded = keras_vit.decode_predictions(probabilities(model, pixels), model, top, names)
        yield from zip(batch, decoded, strict=True)


def read_view(path, spec):
    """One image file as the model is evaluated on it, NumPy uint8 `(height, width, channels)`."""
    from pipelines.images.crops import evaluation_view
    from pipelines.images.decoding import read_image

    return np.asarray(evaluation_view(read_image(path, spec.channels), spec))


def probabilities(model, pixels):
    """Probabilities `(B, K)` of images, uint8 `(B, height, width, channels)`."""
    outputs = model.predict_on_batch(keras_vit.preprocess_input(pixels, model))
    if model.spec.classifier_activation is None:
        activation = keras.activations.get(activation_of_logits(model.spec))
        outputs = keras.ops.convert_to_numpy(activation(keras.ops.convert_to_tensor(outputs)))
    return outputs


def image_files(images):
    """The files that paths, folders and patterns stand for, in order.

    A folder is searched through, for the endings of images in any case; hidden files are left out.
    A file that is named is read whatever it is called.

    Raises:
        FileNotFoundError: if nothing is there.
    """
    from pipelines.sources.folders import SUFFIXES  # which needs TensorFlow

    found = []
    for text in images:
        path = pathlib.Path(text)
        if path.is_dir():
            files = _in_folder(path, SUFFIXES)
        else:
            files = (
                [path] if path.exists() else [pathlib.Path(p) for p in sorted(glob.glob(f"{text}"))]
            )
        if not files:
            raise FileNotFoundError(
                f"There is no image at '{text}'. In a folder the endings are {' '.join(SUFFIXES)}."
            )
        found += files
    return found


def _in_folder(folder, endings):
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in endings
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def _names(spec, class_names):
    if class_names is not None:
        return read_class_names(class_names, spec.classes)
    return spec.class_names or tuple(f"class {index}" for index in range(spec.classes))
