"""The numbers that Keras's Glorot initializer draws on PyTorch, without its temporaries.

Most of what it takes is memory that was not used before, three times that of the kernel.
"""

import math

import keras
import torch


def in_place(initializer):
    """The initializer, or one of the same numbers that draws them into the kernel itself."""
    if type(initializer) is not keras.initializers.GlorotUniform:
        return initializer
    if not isinstance(initializer.seed, int) or not 0 <= initializer.seed < 2**32:
        return initializer
    axes = {"input_axes": initializer.input_axes, "output_axes": initializer.output_axes}
    return GlorotUniformInPlace(seed=initializer.seed, **axes)


class GlorotUniformInPlace(keras.initializers.GlorotUniform):
    """Never saved: layers record the initializer that they were made with."""

    def __call__(self, shape, dtype=None):
        values = keras.ops.empty(shape, dtype)  # on the device that Keras would choose
        has_axes = self.input_axes is not None and self.output_axes is not None
        if values.device.type == "meta" or not (has_axes or len(shape) == 2):
            return super().__call__(shape, dtype)
        inputs, outputs = (self.input_axes, self.output_axes) if has_axes else ((0,), (1,))
        fans = [math.prod(shape[axis] for axis in axes) for axes in (inputs, outputs)]
        limit = math.sqrt(3 * (1 / max(1, sum(fans) / 2)))  # rounded as Keras rounds it
        generator = torch.Generator(values.device).manual_seed(self.seed)
        return values.uniform_(generator=generator).mul_(2 * limit).add_(-limit)
