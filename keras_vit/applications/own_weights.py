"""Weights from files that a model of this library saved."""

import pathlib

import keras

from keras_vit.models.resize import resample_variable


def load_own_weights(model, weights):
    """Loads `.weights.h5` or `.keras` into a model.

    Positions of a `.keras` file are resampled where its grid is another. A `.weights.h5` file does
    not know its grid and must fit as it is.

    Raises:
        ValueError: if `weights` names no such file or does not fit the model.
    """
    path = str(weights)
    if not path.endswith((".weights.h5", ".keras")):
        raise ValueError(
            f"`weights` for '{model.name}' must be None or the path of a `.weights.h5` or `.keras` "
            f"file. Published weights cannot be loaded by this version. Received: weights={path!r}"
        )
    if not pathlib.Path(path).is_file():
        raise ValueError(f"There is no file at the path in `weights`. Received: weights={path!r}")
    if path.endswith(".weights.h5"):
        model.load_weights(path)
    else:
        _copy(keras.saving.load_model(path, compile=False), model, path)


def _copy(source, model, path):
    values = {variable.path: variable for variable in source.weights}
    targets = {variable.path: variable for variable in model.weights}
    if values.keys() != targets.keys():
        raise ValueError(
            f"The model in {path!r} has other variables than '{model.name}'. "
            f"Only in the file: {sorted(values.keys() - targets)}. "
            f"Only in the model: {sorted(targets.keys() - values)}"
        )
    method = getattr(model.spec, "interpolation", None)  # a ResNet has no positions
    new = {
        name: resample_variable(
            name,
            keras.ops.convert_to_numpy(variable),
            source.spec,
            model.spec,
            method,
        )
        for name, variable in values.items()
    }
    wrong = [name for name, value in new.items() if value.shape != tuple(targets[name].shape)]
    if wrong:
        shapes = [f"{name} {new[name].shape} for {tuple(targets[name].shape)}" for name in wrong]
        raise ValueError(f"The model in {path!r} does not fit '{model.name}': {', '.join(shapes)}")
    for name, value in new.items():
        targets[name].assign(value)
