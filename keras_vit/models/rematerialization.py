"""Less memory for activations in training, at the price of a second forward pass."""

from keras_vit.layers import EncoderBlock
from keras_vit.models.image_model import require_spec
from keras_vit.models.recompile import recompile


def rematerialize(model, enabled=True):
    """Lets the encoder blocks keep only their inputs for the backward pass.

    The rest is computed again when it is needed, with the same random numbers, so that the
    gradients are the same: about a third more computation for a fraction of the memory. A property
    of this model in this process; files and configs do not have it. (`keras.RematScope` fails on
    TensorFlow and JAX for models with dropout, and changes the random numbers on PyTorch.)

    Args:
        model: A Vision Transformer. If it is compiled, it is compiled anew, with a fresh optimizer.
        enabled: Whether to, or no longer.

    Returns:
        The same model.

    Raises:
        ValueError: if the model has no encoder blocks.

    Example:

    >>> keras_vit.rematerialize(model).compile("adam", "sparse_categorical_crossentropy")
    """
    require_spec(model, "rematerialize")
    for layer in model.layers:
        if isinstance(layer, EncoderBlock):
            layer.rematerialize = bool(enabled)
    recompile(model)
    return model
