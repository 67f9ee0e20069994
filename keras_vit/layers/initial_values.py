"""How variables start: drawn, or zeros where a file's weights are about to take their place.

Drawing the random numbers of a large model takes seconds of processor time. While a model is built
for weights that exist already, its random variables start as zeros. What a layer records as its
initializers stays what it was made with.
"""

import contextlib
import contextvars

import keras

from keras_vit.layers import cpu_initial_values

_skipped = contextvars.ContextVar("keras_vit_initial_values_skipped", default=False)


@contextlib.contextmanager
def skipped():
    """A context in which the layers of this library make zeros instead of random values.

    For building a model whose every variable is set afterwards. Keras's own layers in a model, as
    those of its top, are as always.
    """
    token = _skipped.set(True)
    try:
        yield
    finally:
        _skipped.reset(token)


def chosen(initializer):
    """What to initialize with: `"zeros"` where initial values are skipped."""
    return "zeros" if _skipped.get() else cpu_initial_values.drawn(initializer)


def build(layer, input_shape):
    """Builds a Keras layer with a `kernel`, inside one of this library's layers."""
    recorded = layer.kernel_initializer, layer.bias_initializer
    layer.kernel_initializer, layer.bias_initializer = (
        keras.initializers.get(chosen(initializer)) for initializer in recorded
    )
    layer.build(input_shape)
    layer.kernel_initializer, layer.bias_initializer = recorded
