"""Models for serving: pixels in, probabilities out, without Keras and without this library."""

import dataclasses
import json
import pathlib
import shutil

import keras
import numpy as np

import keras_vit
from keras_vit.layers import PixelNormalization
from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.image_model import require_spec
from keras_vit.models.rebuild import FIRST_LAYERS, rebuild
from keras_vit.models.spec import ViTSpec
from keras_vit.weights.atomic import atomic_path, atomic_write
from pipelines.logits import activation_of_logits
from pipelines.model_files.destination import check_free
from pipelines.model_files.export_formats import (
    FORMATS,
    INPUT,
    OUTPUT,
    can_run,
    checked_format,
)

TOLERANCE = 1e-4  # of probabilities, between the model and what was written


def export(model, path, format, *, overwrite=False):
    """Writes a model for serving, and checks what was written.

    Inside are the scaling of pixels and the softmax: it takes uint8 `(B, height, width, C)` of any
    B, named "images", and gives float32 `(B, K)`. It computes in float32, whatever the model was
    trained in, and the kernels that a hybrid or a ResNet standardises are stored standardised.
    Beside it, in `<path>.json`, are the class names and how images are resized and cropped.

    Args:
        model: A model made by keras_vit, with its classifier.
        path: What to write: a folder for `"saved_model"`, else a file ending in `.onnx` or
            `.tflite`.
        format: `"saved_model"` (of TensorFlow), `"onnx"` or `"litert"`.
        overwrite: Whether an export that is there already is replaced.

    Returns:
        The largest difference from the model's probabilities on random images, or None where no
        package is installed that runs the format.

    Raises:
        ValueError: if something is there already, the backend cannot write the format with a free
            batch size, the model has no classifier, or what was written does not agree with the
            model. Nothing is left then.
        ImportError: if a package is missing; the message says which.

    Example:

    >>> export(keras.saving.load_model("my_run.keras"), "serving/1", "saved_model")
    """
    spec = require_spec(model, "export", families=(ViTSpec, BiTSpec))
    kind, path = checked_format(format), pathlib.Path(path)
    check_destination(path, format, overwrite)
    served = serving_model(model)
    trials = _trials(served)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as beside:
        kind.write(served, beside)
        difference = _difference(trials, beside, kind) if can_run(kind) else None
        if difference is not None and not difference <= TOLERANCE:
            raise ValueError(
                f"What was written as {format!r} differs from the model by {difference:.1e} in its "
                f"probabilities, more than {TOLERANCE}, and was not kept."
            )
        if path.is_dir():
            shutil.rmtree(path)  # an older one, as `check_destination` has seen
    with atomic_write(path.with_name(f"{path.name}.json")) as file:
        file.write(json.dumps(description(spec), indent=1).encode())
    return difference


def serving_model(model):
    """A model from uint8 images to probabilities, in float32, around the weights of another."""
    spec = model.spec
    _check_servable(model)
    model = _folded(_in_float32(model))
    images = keras.Input((*spec.image_size, spec.channels), dtype="uint8", name=INPUT)
    x = images
    if not spec.include_preprocessing:
        facts = spec.preprocessing
        scale = PixelNormalization(facts.mean, facts.std, name="pixels", dtype="float32")
        x = scale(x)
    x = model(x)
    if spec.classifier_activation is None:
        activation = activation_of_logits(spec)
        x = keras.layers.Activation(activation, name=OUTPUT, dtype="float32")(x)
    return keras.Model(images, x, name="serving")


def description(spec):
    """What a server has to know besides: names, and how an image becomes one of the right size."""
    facts = dataclasses.asdict(spec.preprocessing)
    crop = {name: facts[name] for name in facts if name not in ("mean", "std")}
    names = None if spec.class_names is None else list(spec.class_names)
    return {
        "class_names": names,
        "image_size": list(spec.image_size),
        "channels": spec.channels,
        **crop,
    }


def _check_servable(model):
    spec = model.spec
    if not spec.include_top or spec.classifier_activation not in (None, "softmax", "sigmoid"):
        raise ValueError(
            "Only a model with a classifier of softmax, sigmoid or no activation gives "
            f"probabilities. Received: include_top={spec.include_top}, "
            f"classifier_activation={spec.classifier_activation!r}"
        )
    if len(model.inputs) != 1 or model.get_layer(index=1).name not in FIRST_LAYERS:
        raise ValueError(
            "`export` puts the scaling of pixels before the model, but this one was built on an "
            "`input_tensor` with layers of its own before it. Export it by `model.export`."
        )


def _in_float32(model):
    policies = {layer.dtype_policy.name for layer in model.layers}
    if policies <= {"float32"}:
        return model
    spec = dataclasses.replace(model.spec, dtype="float32")
    return rebuild(model, spec, lambda path, value: value.astype("float32"), "export")


def _folded(model):
    spec = model.spec
    standardises = spec.family == "bit" or spec.resnet is not None
    if standardises and not spec.folded:
        return keras_vit.fold_weight_standardization(model)
    return model


def _trials(served):
    """(images, the model's probabilities) for one image and for several."""
    generator, trials = np.random.default_rng(0), []
    for batch in (1, 3):
        shape = (batch, *served.input_shape[1:])
        images = generator.integers(0, 256, shape).astype("uint8")
        trials.append((images, keras.ops.convert_to_numpy(served(images, training=False))))
    return trials


def _difference(trials, path, kind):
    """The largest difference of what was written from the model."""
    return max(float(np.abs(kind.run(path, images) - wanted).max()) for images, wanted in trials)


def check_destination(path, format, overwrite=False):
    """Refuses a path that does not suit the format, or where something is already.

    Raises:
        ValueError: if it is one.
    """
    path, kind = pathlib.Path(path), FORMATS[format]
    if kind.ending and path.suffix != kind.ending:
        raise ValueError(
            f"The format {format!r} is written to a file ending in '{kind.ending}'. "
            f"Received: path='{path}'"
        )
    if path.is_dir() and (kind.ending or any(path.iterdir()) and not _is_saved_model(path)):
        raise ValueError(f"There is a folder of something else. Received: path='{path}'")
    if path.is_file() and not kind.ending:
        raise ValueError(
            f"The format {format!r} is written to a folder, and there is a file. "
            f"Received: path='{path}'"
        )
    check_free([path], overwrite)


def _is_saved_model(path):
    return (path / "saved_model.pb").exists()
