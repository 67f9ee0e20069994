"""The base of the bottleneck units of ResNets."""

from keras_vit.layers import checks
from keras_vit.layers.base import Layer
from keras_vit.layers.group_norm import GroupNorm
from keras_vit.layers.padding import num_windows
from keras_vit.layers.std_conv import StdConv2D

EXPANSION = 4  # output channels for each of the inner ones


class ResidualUnit(Layer):
    """Base of the bottleneck units: a 1 x 1, a 3 x 3 and a 1 x 1 convolution beside a shortcut.

    A subclass makes its layers in `build`, by `conv` and `norm`, and calls them in `call`.

    Args:
        filters: Integer F, channels inside; 4 F leave.
        strides: Integer, of the 3 x 3 convolution and of the shortcut.
        standardization: Whose, see `StdConv2D`.
        epsilon: Float, of the norms.

    Call arguments:
        images: Float tensor `(B, H, W, C)`.

    Returns:
        Float tensor `(B, ceil(H / strides), ceil(W / strides), 4 F)`.
    """

    padding = None  # of its convolutions, see `StdConv2D`

    def __init__(self, filters, strides, standardization, epsilon, **kwargs):
        super().__init__(**kwargs)
        self.filters = checks.positive_integer(filters, "filters")
        self.strides = checks.positive_integer(strides, "strides")
        self.standardization = standardization
        self.epsilon = epsilon

    def compute_output_shape(self, input_shape):
        batch, height, width, _ = checks.image_shape(input_shape)
        rows, columns = num_windows(height, self.strides), num_windows(width, self.strides)
        return (batch, rows, columns, EXPANSION * self.filters)

    def changes_shape(self, input_shape):
        """Whether the shortcut needs a projection."""
        return self.strides != 1 or input_shape[-1] != EXPANSION * self.filters

    def conv(self, name, filters, kernel_size, strides, input_shape):
        """A built convolution."""
        conv = StdConv2D(
            filters,
            kernel_size,
            strides=strides,
            padding=self.padding,
            standardization=self.standardization,
            name=name,
            dtype=self.dtype_policy,
        )
        conv.build(input_shape)
        return conv

    def norm(self, name, input_shape, gamma_initializer="ones"):
        """A built group norm."""
        norm = GroupNorm(
            epsilon=self.epsilon,
            gamma_initializer=gamma_initializer,
            name=name,
            dtype=self.dtype_policy,
        )
        norm.build(input_shape)
        return norm
