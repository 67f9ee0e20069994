"""From probabilities to names of classes."""

import keras
import numpy as np

from keras_vit.applications.class_names import class_labels, imagenet_names
from keras_vit.applications.class_names import class_names as read_class_names
from keras_vit.applications.facts import facts_of
from keras_vit.layers import checks


def decode_predictions(probabilities, model_or_weights=None, top=5, class_names=None):
    """The likeliest classes of each image, with their names.

    Args:
        probabilities: Array or tensor `(B, K)` of 0 to 1, as a model with softmax or sigmoid gives.
            Logits are refused.
        model_or_weights: The model, for the class names in its spec, or the name of published
            weights such as `"ViT_B16/imagenet"`. None is ImageNet-1k.
        top: Integer, how many classes; all of them where there are fewer.
        class_names: A sequence of K names, or the path of a file of them (a name a line, or JSON),
            for what has none: ImageNet-21k, or a model that was trained without names.

    Returns:
        A list for each image, of `(identifier, name, probability)` tuples, likeliest first, as in
        `keras.applications`. The identifier is WordNet's for ImageNet-1k, else the class's index.

    Raises:
        ValueError: if there are no names for these classes, the head was never trained (all zeros),
            or the values are no probabilities.

    Example:

    >>> keras_vit.decode_predictions(model.predict(x), model, top=1)
    [[('n02123045', 'tabby', 0.72)]]
    """
    values = _checked_probabilities(probabilities)
    top = checks.positive_integer(top, "top")
    facts = None if model_or_weights is None else facts_of(model_or_weights)
    _check_trained(model_or_weights, facts)
    names = _names(facts, class_names, values.shape[1])
    labels = class_labels(names)
    best = np.argsort(-values, axis=1, kind="stable")[:, :top]
    return [
        [(*labels[k], float(row[k])) for k in order]
        for row, order in zip(values, best, strict=True)
    ]


def _checked_probabilities(probabilities):
    if keras.ops.is_tensor(probabilities):
        probabilities = keras.ops.convert_to_numpy(keras.ops.cast(probabilities, "float32"))
    values = np.asarray(probabilities, dtype="float32")
    if values.ndim != 2:
        raise ValueError(
            "`probabilities` must be `(batch, classes)`; for one image use `probabilities[None]`. "
            f"Received: shape={values.shape}"
        )
    # A rounding above 1 is no reason. Comparisons with nan are false.
    if not np.all((values >= 0) & (values <= 1 + 1e-3)):
        raise ValueError(
            "`probabilities` must be from 0 to 1. Logits become so by `keras.ops.softmax(logits)`, "
            "or in a model with `classifier_activation='softmax'`. "
            f"Received: values from {values.min()} to {values.max()}"
        )
    return values


def _check_trained(model, facts):
    head = {v.path: v for v in getattr(model, "weights", ()) if v.path.startswith("head/")}
    untrained = head and not any(np.any(keras.ops.convert_to_numpy(v)) for v in head.values())
    if untrained or getattr(facts, "zero_head", False):
        raise ValueError(
            "The classifier is all zeros, so every class is as likely as any other: it was never "
            "trained, or its file was published without it, as Google's first ImageNet-21k files "
            "are. Fine-tune the model first."
        )


def _names(facts, class_names, columns):
    classes = 1000 if facts is None and class_names is None else getattr(facts, "classes", columns)
    if not getattr(facts, "include_top", True) or classes is None:
        raise ValueError(
            "Only a model with a classifier has classes to name. "
            f"Received: {'weights without a head' if classes is None else 'include_top=False'}"
        )
    if columns != classes:
        raise ValueError(
            f"`probabilities` must have a column for each of the {classes} classes. "
            f"Received: {columns} columns. `model_or_weights` says whose they are."
        )
    if class_names is not None:
        return read_class_names(class_names, columns)
    if facts is None or getattr(facts, "label_set", None) == "imagenet":
        return imagenet_names()
    if getattr(facts, "class_names", None) is None:
        raise ValueError(
            f"There are no names for these {columns} classes. Name them with `class_names=`, a "
            "sequence or the path of a file with one name a line; for ImageNet-1k's, leave "
            "`model_or_weights` out."
        )
    return facts.class_names
