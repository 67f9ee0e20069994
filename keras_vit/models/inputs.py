"""The image input of a model: its own, or a Keras tensor of the user's."""

import keras

from keras_vit.layers import PixelNormalization


def image_input(spec, input_tensor=None):
    """The inputs of the model to build and the images `(B, H, W, C)` to build on.

    Raises:
        ValueError: if `input_tensor` is no Keras tensor of the spec's image shape.
    """
    shape = (*spec.image_size, spec.channels)
    if input_tensor is None:
        inputs = keras.Input(shape, name="images")
        return inputs, inputs
    if not isinstance(input_tensor, keras.KerasTensor):
        raise ValueError(
            "`input_tensor` must be a Keras tensor, such as the result of `keras.Input(...)` or of "
            f"a layer. Received: input_tensor={input_tensor!r} (of type {type(input_tensor)})"
        )
    if tuple(input_tensor.shape[1:]) != shape:
        raise ValueError(
            f"`input_tensor` must be (batch, {', '.join(map(str, shape))}). "
            f"Received: input_tensor.shape={tuple(input_tensor.shape)}"
        )
    sources = keras.utils.get_source_inputs(input_tensor)
    return sources[0] if len(sources) == 1 else sources, input_tensor


def in_range(spec, images, dtype):
    """The images in the range that the weights expect: scaled here, if the spec wants that."""
    if not spec.include_preprocessing:
        return images
    facts = spec.preprocessing
    return PixelNormalization(facts.mean, facts.std, name="pixel_normalization", dtype=dtype)(
        images
    )
