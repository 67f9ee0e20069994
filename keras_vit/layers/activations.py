"""Activations by name; the two GELUs have names of their own."""

import keras
from keras import ops

from keras_vit.layers import platform


def activation_function(name):
    """The function of an activation's name.

    `"gelu_tanh"` is the approximation that the paper's code uses and `"gelu"` the exact function;
    they are up to 4.7e-4 apart. `"quick_gelu"` is x * sigmoid(1.702 x). Any other name is Keras's.

    Raises:
        ValueError: if nothing has that name.
    """
    if name == "gelu_tanh":
        return platform.gelu_tanh
    if name == "gelu":
        return platform.gelu
    if name == "quick_gelu":
        return _quick_gelu
    if not isinstance(name, str):
        raise ValueError(
            "`activation` must be a name, such as 'gelu_tanh', 'gelu' or 'relu'. "
            f"Received: activation={name!r}"
        )
    try:
        return keras.activations.get(name)
    except ValueError as error:
        raise ValueError(
            "`activation` must be 'gelu_tanh', 'gelu' (exact), 'quick_gelu' or the name of a "
            f"Keras activation. Received: activation={name!r}"
        ) from error


def _quick_gelu(x):
    return x * ops.sigmoid(1.702 * x)
