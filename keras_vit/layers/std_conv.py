"""Convolution with standardised weights."""

import dataclasses

import keras
from keras import ops

from keras_vit.layers import checks
from keras_vit.layers.base import Layer
from keras_vit.layers.padding import PADDINGS, image_pads, num_windows
from keras_vit.layers.platform import convolved


@dataclasses.dataclass(frozen=True)
class Standardization:
    """The epsilon of a standardisation, and whether it is added under the root."""

    epsilon: float
    under_root: bool


# They agree where the weights of a filter spread, and differ by 29 % at a deviation of 1e-4.
STANDARDIZATIONS = {
    "google": Standardization(1e-5, under_root=False),
    "timm": Standardization(1e-8, under_root=True),
    "huggingface": Standardization(1e-8, under_root=True),
    "bit": Standardization(1e-10, under_root=True),
}


@keras.saving.register_keras_serializable(package="keras_vit")
class StdConv2D(Layer):
    """2-D convolution, without a bias, whose filters are standardised first (arXiv 1903.10520).

    The variable is the raw kernel, which training changes. Each filter is brought to mean 0 and
    deviation 1 over its height, width and input channels in every pass, in float32 whatever the
    policy. Such filters multiply the deviation of their input by the root of their fan-in, so a
    `GroupNorm` belongs behind or before them. Images are channels-last.

    Args:
        filters: Integer F, output channels.
        kernel_size: Integer or `(height, width)`, odd.
        strides: Integer or `(height, width)`.
        padding: `"same"`, TensorFlow's at every size, or `"symmetric"`, half the kernel on each
            side.
        standardization: Whose: `"google"`, (w - mean) / (deviation + 1e-5); `"timm"` or
            `"huggingface"`, (w - mean) / sqrt(variance + 1e-8); `"bit"` the same with 1e-10. None
            takes the kernel as it is, because it has been standardised for good
            (`keras_vit.fold_weight_standardization`).

    Call arguments:
        images: Float tensor `(B, H, W, C)`.

    Returns:
        Float tensor `(B, ceil(H / stride), ceil(W / stride), F)`.

    Example:

    >>> keras_vit.layers.StdConv2D(64, 7, strides=2)(np.zeros((2, 225, 230, 3))).shape
    (2, 113, 115, 64)
    """

    def __init__(
        self, filters, kernel_size, strides=1, padding="same", standardization="google", **kwargs
    ):
        super().__init__(**kwargs)
        self.filters = checks.positive_integer(filters, "filters")
        self.kernel_size = checks.odd_pair(kernel_size, "kernel_size")
        self.strides = checks.pair(strides, "strides")
        self.padding = checks.one_of(padding, "padding", PADDINGS)
        choices = (*STANDARDIZATIONS, None)
        self.standardization = checks.one_of(standardization, "standardization", choices)

    def build(self, input_shape):
        checks.image_shape(input_shape)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(*self.kernel_size, input_shape[-1], self.filters),
            initializer="lecun_normal",
            autocast=False,  # the statistics are taken of all its digits
        )

    def call(self, images):
        kernel = ops.convert_to_tensor(self.kernel)
        if self.standardization is not None:
            kernel = standardize(kernel, self.standardization)
        kernel = ops.cast(kernel, self.compute_dtype)
        border = image_pads(images, self.kernel_size, self.strides, self.padding)
        return convolved(images, kernel, self.strides, border)

    def compute_output_shape(self, input_shape):
        batch, height, width, _ = checks.image_shape(input_shape)
        rows, columns = self.strides
        return (batch, num_windows(height, rows), num_windows(width, columns), self.filters)


def standardize(kernel, standardization):
    """The kernel `(h, w, C, F)` with every filter standardised, in float32 or more.

    Args:
        kernel: Float tensor.
        standardization: A key of `STANDARDIZATIONS`.
    """
    constants = STANDARDIZATIONS[standardization]
    kernel = ops.cast(kernel, keras.backend.result_type(kernel.dtype, "float32"))
    kernel = kernel - ops.mean(kernel, axis=(0, 1, 2), keepdims=True)
    variance = ops.mean(ops.square(kernel), axis=(0, 1, 2), keepdims=True)
    if constants.under_root:
        return kernel / ops.sqrt(variance + constants.epsilon)
    # The floor is far below what float32 tells from zero beside epsilon. It is there for the
    # gradient, as a constant filter would make that of the root infinite.
    return kernel / (ops.sqrt(ops.maximum(variance, 1e-20)) + constants.epsilon)
