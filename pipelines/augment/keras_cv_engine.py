"""keras-cv's RandomCropAndResize, RandAugment and GridMask. They follow no seed.

keras-cv 0.9.0 is no longer developed. It is imported when one of these functions is called.
"""

import functools
import warnings

from pipelines._tensorflow import tf


def crop_and_resize(image, image_size, area, aspect):
    """keras-cv's RandomCropAndResize of one decoded image: uint8 `(*image_size, C)`."""
    layer = _layer(
        "RandomCropAndResize",
        target_size=tuple(image_size),
        crop_area_factor=area,
        aspect_ratio_factor=aspect,
    )
    return _apply(layer, image)


def randaugment(image, layers, magnitude):
    """keras-cv's RandAugment; its own operations, with its magnitude at `magnitude / 10`."""
    layer = _layer(
        "RandAugment",
        value_range=(0, 255),
        augmentations_per_image=layers,
        magnitude=magnitude / 10,
    )
    return _apply(layer, image)


def grid_mask(image):
    """keras-cv's GridMask: squares in a turned grid become black."""
    return _apply(_layer("GridMask"), image)


def check_installed():
    """Raises an ImportError that says what to install, unless keras-cv is there."""
    _package()


@functools.cache
def _layer(name, **arguments):
    return getattr(_package().layers, name)(**arguments)


@functools.cache
def _package():
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that it still takes from older libraries
            import keras_cv
    except ModuleNotFoundError as error:
        if error.name != "keras_cv":
            raise  # a part that keras-cv itself lacks
        raise ImportError(
            "`engine='keras_cv'` needs keras-cv. Install it with: pip install "
            '"keras3-vit[keras-cv]", or leave the engine at "tf", which has the same operations '
            "and follows seeds."
        ) from error
    return keras_cv


def _apply(layer, image):
    """Runs a layer on one image of 0..255."""
    # The layers branch on tensors, for which they need AutoGraph, and data sets are built without.
    converted = tf.function(lambda image: layer(image, training=True), autograph=True)
    result = converted(tf.cast(image, "float32"))
    result = tf.cast(tf.clip_by_value(tf.round(result), 0.0, 255.0), "uint8")
    return tf.ensure_shape(result, (*result.shape[:2], image.shape[-1]))
