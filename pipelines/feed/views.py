"""One image as the model is trained or evaluated on it."""

from pipelines._tensorflow import tf
from pipelines.images.crops import evaluation_view
from pipelines.images.decoding import decode, decode_crop, to_channels


def training_view(data, encoded, augment, seed, spec):
    """A random view of an image.

    Args:
        data: Bytes of an image file, a scalar string; or uint8 `(H, W, C)`.
        encoded: Whether it is bytes.
        augment: An `Augment`.
        seed: Integer tensor `(2,)`.
        spec: The model's, for `image_size` and `channels`.

    Returns:
        uint8 `(*image_size, channels)`.
    """
    size = spec.image_size
    if not encoded:
        view = augment.view(to_channels(data, spec.channels), seed, size)
    elif augment.fuses:
        crop = decode_crop(
            data,
            lambda whole: augment.boxes(whole[0], whole[1], seed, size),
            spec.channels,
            least=size,
        )
        view = augment.finish(crop, seed, size)
    else:
        view = augment.view(decode(data, spec.channels), seed, size)
    return tf.ensure_shape(view, (*size, spec.channels))


def plain_view(data, encoded, spec):
    """The view of an image that the model is evaluated on; see `evaluation_view`."""
    image = decode(data, spec.channels) if encoded else to_channels(data, spec.channels)
    return evaluation_view(image, spec)


def in_model_range(images, spec):
    """Images as the model takes them.

    Args:
        images: uint8 `(B, H, W, C)`.
        spec: The model's.

    Returns:
        The same where the model includes its preprocessing, so that bytes travel to the device;
        else float32, normalised by the model's mean and std.
    """
    if spec.include_preprocessing:
        return images
    facts = spec.preprocessing
    mean, std = (tf.constant(values) * 255.0 for values in (facts.mean, facts.std))
    return (tf.cast(images, "float32") - mean) / std
