"""The named models and their published weights, as rows."""

import keras

import keras_vit
from keras_vit.applications.facts import CONSTRUCTORS
from keras_vit.layers import checks
from keras_vit.weights import catalogue


def model_rows(names=None):
    """Sizes and weights of named models.

    For a process that does nothing else: Keras keeps the variables that were never made in a list,
    and the next step of training on JAX would make them.

    Args:
        names: Names of constructors; None is all.

    Returns:
        A list of dicts: `model`, `parameters`, `macs` (multiply-adds of one image of `image_size`
        with 1,000 classes) and `weights`, a list of dicts of what the catalogue knows.

    Raises:
        ValueError: if there is no such model.
    """
    for name in names or ():
        checks.one_of(name, "model", CONSTRUCTORS)
    return [_row(name) for name in names or CONSTRUCTORS]


def _row(name):
    # No value is made, so that a model of 1.8 billion parameters takes megabytes.
    with keras.StatelessScope(initialize_variables=False):
        model = getattr(keras_vit, name)(weights=None)
        return {
            "model": name,
            "image_size": list(model.spec.image_size),
            "parameters": model.count_params(),
            "macs": keras_vit.count_macs(model).total,
            "weights": [_weights(entry) for entry in catalogue.entries(name)],
        }


def _weights(entry):
    aliases = catalogue.aliases(entry.model).items()
    return {
        "name": entry.name,
        "aliases": [alias for alias, name in aliases if name == entry.name],
        "url": entry.url,
        "source": entry.source,
        "training_data": entry.training_data,
        "classes": entry.classes,
        "image_size": list(entry.resolution),
        "origin": entry.origin,
        "licence": entry.licence,
        "top1": entry.top1,
        "top1_source": entry.top1_source,
        "trained_head": entry.classes is not None and not entry.zero_head,
    }
