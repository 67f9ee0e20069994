"""What goes into the parts of a model and comes out of them, captured batch by batch."""

import contextlib

import keras
import numpy as np
from keras import ops


def captured(model, tensors, batches):
    """Yields, for each batch of images, what some Keras tensors of the model's graph are for it.

    The model's own graph is cut there and run once a batch, in inference mode; its layers, and
    their fused attention, are left as they are.

    Args:
        model: An `ImageModel`.
        tensors: Keras tensors of its graph.
        batches: An `ImageBatches`.

    Yields:
        A list of tensors, one for each of `tensors`.
    """
    inner = keras.Model(model.inputs, list(tensors))
    for images in batches:
        with _without_gradients():
            values = inner(ops.convert_to_tensor(images), training=False)
        yield values if isinstance(values, (list, tuple)) else [values]


def attention_of(layer, tokens, reduce=None):
    """The probabilities `(b, h, Q, N)` that a layer has for its input tokens, float32 NumPy.

    With `reduce="heads"` their mean over the heads, `(b, Q, N)`.
    """
    with _without_gradients():
        weights = layer.attention_weights(tokens)
        if reduce == "heads":
            weights = ops.mean(weights, axis=1)
        return to_float32(weights)


def to_float32(tensor):
    """A tensor of any precision as float32 NumPy."""
    return np.asarray(ops.convert_to_numpy(ops.cast(tensor, "float32")))


@contextlib.contextmanager
def _without_gradients():
    # PyTorch would keep every activation for a backward pass that does not come.
    if keras.backend.backend() != "torch":
        yield
        return
    import torch

    with torch.no_grad():
        yield
