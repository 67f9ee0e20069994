"""A new model from a changed spec, with every weight carried over."""

import keras

from keras_vit.layers import initial_values
from keras_vit.models.build import build_model

FIRST_LAYERS = ("pixel_normalization", "patch_embedding", "stem_conv")


def rebuild(model, spec, convert, purpose):
    """Builds the model of another spec and fills it with converted weights.

    Args:
        model: An `ImageModel`, left as it was.
        spec: The spec of the new model; its variables have the names of the old one's.
        convert: Function of a variable's path and its NumPy value to the new value.
        purpose: The name of what is done, for errors.

    Returns:
        A new model, not compiled. What was frozen is frozen.

    Raises:
        ValueError: if the model has other variables than its spec describes, or layers before it.
    """
    check_begins_at_images(model, purpose)
    with initial_values.skipped():
        new_model = build_model(spec, name=model.name)
    targets = {variable.path: variable for variable in new_model.weights}
    sources = {variable.path: variable for variable in model.weights}
    check_same_paths(sources, targets, purpose)
    for path, source in sources.items():
        targets[path].assign(convert(path, keras.ops.convert_to_numpy(source)))
    _copy_trainable(model, new_model)
    return new_model


def check_begins_at_images(model, purpose):
    """Raises a ValueError if there are layers of the user's before the model's own."""
    if len(model.inputs) != 1 or model.get_layer(index=1).name not in FIRST_LAYERS:
        raise ValueError(
            f"`{purpose}` rebuilds the model from its image input, but this one was built on an "
            f"`input_tensor` with layers before it. Call `{purpose}` on a model built without "
            "them, and put the layers before the new one."
        )


def check_same_paths(sources, targets, purpose):
    """Raises a ValueError unless both have the same paths: those in the model and in its spec."""
    unknown, missing = sorted(sources.keys() - targets), sorted(targets.keys() - sources)
    if unknown or missing:
        raise ValueError(
            "The model's variables are not those that its spec describes, as after quantisation, "
            f"LoRA or surgery; call `{purpose}` before them. "
            f"Received: additional variables {unknown}, missing variables {missing}"
        )


def _copy_trainable(model, new_model):
    """What was frozen stays frozen, whole layers and single variables alike."""
    new_layers = {layer.name: layer for layer in new_model.layers}
    for layer in model.layers[1:]:  # after the input, whose name may be the user's
        if layer.name in new_layers:  # dropout may have gone
            new_layers[layer.name].trainable = layer.trainable
    for variable, new_variable in zip(model.weights, new_model.weights, strict=True):
        new_variable.trainable = variable.trainable
