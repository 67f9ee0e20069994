"""What goes into the parts of a model, captured batch by batch."""

import keras
import numpy as np


def layer_inputs(model, layers, images, batch_size):
    """Yields, for each batch of images, the input tokens of each of the layers.

    The model's own graph is cut at those layers and run once a batch, in inference mode; the layers
    themselves, and their fused attention, are left as they are.

    Args:
        model: An `ImageModel`.
        layers: Layers of its graph.
        images: Array `(B, H, W, C)` as the model takes them.
        batch_size: Integer, images at a time; it bounds the memory.

    Yields:
        The slice of the batch and the list of tensors `(b, N, D)`, one a layer.
    """
    images = checked_images(model, images)
    inner = keras.Model(model.inputs, [layer.input for layer in layers])
    for start in range(0, len(images), batch_size):
        batch = slice(start, min(start + batch_size, len(images)))
        tokens = inner(keras.ops.convert_to_tensor(images[batch]), training=False)
        yield batch, tokens if isinstance(tokens, (list, tuple)) else [tokens]


def checked_images(model, images):
    """The images as an array, if they are at least one and such as the model takes."""
    images = np.asarray(images)
    wanted = tuple(model.inputs[0].shape)
    if images.ndim != 4 or images.shape[1:] != wanted[1:] or not len(images):
        raise ValueError(
            f"`images` must be (batch, {', '.join(map(str, wanted[1:]))}), as the model takes "
            f"them, and at least one. Received: images.shape={images.shape}"
        )
    return images
