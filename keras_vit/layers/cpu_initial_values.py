"""Large kernels that start on a CPU are drawn by NumPy, on all of its processors.

The generators of JAX and PyTorch use one of them, and their numbers were most of what building a
large model took. Smaller kernels are Keras's, as all are on TensorFlow, which gains nothing by
this, and on accelerators.
"""

import concurrent.futures
import math
import os

import keras
import numpy as np

from keras_vit.layers import platform

PIECE = 2**18  # numbers: 1 MiB, which a processor keeps close by


def drawn(initializer):
    """The initializer, or one of the same distribution that draws large kernels faster."""
    if type(initializer) is not keras.initializers.GlorotUniform:
        return initializer
    if not isinstance(initializer.seed, int) or initializer.seed < 0:
        return initializer
    axes = {"input_axes": initializer.input_axes, "output_axes": initializer.output_axes}
    return GlorotUniform(seed=initializer.seed, **axes)


class GlorotUniform(keras.initializers.GlorotUniform):
    """Never saved: layers record the initializer that they were made with."""

    def __call__(self, shape, dtype=None):
        fans = self._fans(shape)
        if fans is None or math.prod(shape) < PIECE or not _starts_on_a_cpu():
            return super().__call__(shape, dtype)
        on_torch = platform.BACKEND == "torch"  # where an array would be copied
        values = (keras.ops if on_torch else np).empty(shape, "float32")
        draw(values.numpy() if on_torch else values, math.sqrt(6 / sum(fans)), self.seed)
        return keras.ops.convert_to_tensor(values, dtype)

    def _fans(self, shape):
        axes = self.input_axes, self.output_axes
        if None not in axes:
            return [math.prod(shape[axis] for axis in some) for some in axes]
        return shape if len(shape) == 2 else None


def _starts_on_a_cpu():
    if platform.BACKEND == "torch":
        return keras.ops.empty(()).device.type == "cpu"
    return platform.BACKEND == "jax" and platform.tensorflow_or_jax_on_a_cpu()


def draw(values, limit, seed):
    """Fills an array with numbers from -limit to limit, the same on any number of processors.

    Args:
        values: A contiguous float32 array.
        limit: Float.
        seed: Integer, 0 or more.
    """
    flat = values.reshape(-1)

    def draw_piece(start):
        piece = flat[start : start + PIECE]
        generator = np.random.Generator(np.random.SFC64([seed, start]))
        generator.random(out=piece, dtype="float32")
        piece *= 2 * limit
        piece -= limit

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(draw_piece, range(0, flat.size, PIECE)))
