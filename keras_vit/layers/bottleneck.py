"""The bottleneck unit of the hybrids: normalisation and activation after each convolution."""

import functools

import keras
from keras import ops

from keras_vit.layers.platform import call_part
from keras_vit.layers.residual_unit import ResidualUnit


@keras.saving.register_keras_serializable(package="keras_vit")
class BottleneckUnit(ResidualUnit):
    """A post-activation bottleneck (ResNet V1) of standardised convolutions and group norms.

    relu(shortcut + norm3(conv3(relu(norm2(conv2(relu(norm1(conv1(x)))))))). The shortcut is x, or
    norm_proj(conv_proj(x)) where the shape changes. The factors of `norm3` start at zero, so at
    first the branch adds nothing. Padding is TensorFlow's "same".

    Args:
        filters: Integer F, channels inside; 4 F leave.
        strides: Integer, of the 3 x 3 convolution `conv2` and of the shortcut.
        standardization: Whose, see `StdConv2D`.
        epsilon: Float, of the norms.

    Call arguments:
        images: Float tensor `(B, H, W, C)`.

    Returns:
        Float tensor `(B, ceil(H / strides), ceil(W / strides), 4 F)`.
    """

    padding = "same"

    def build(self, input_shape):
        output_shape = self.compute_output_shape(input_shape)
        inside = (*input_shape[:-1], self.filters)
        strided = (*output_shape[:-1], self.filters)
        self.conv1 = self.conv("conv1", self.filters, 1, 1, input_shape)
        self.norm1 = self.norm("norm1", inside)
        self.conv2 = self.conv("conv2", self.filters, 3, self.strides, inside)
        self.norm2 = self.norm("norm2", strided)
        self.conv3 = self.conv("conv3", output_shape[-1], 1, 1, strided)
        self.norm3 = self.norm("norm3", output_shape, gamma_initializer="zeros")
        self.conv_proj = self.norm_proj = None
        if self.changes_shape(input_shape):
            self.conv_proj = self.conv("conv_proj", output_shape[-1], 1, self.strides, input_shape)
            self.norm_proj = self.norm("norm_proj", output_shape)

    def call(self, images):
        run = functools.partial(call_part, self)
        x = ops.relu(run(self.norm1, run(self.conv1, images)))  # (B, H, W, F)
        x = ops.relu(run(self.norm2, run(self.conv2, x)))  # (B, H / strides, W / strides, F)
        x = run(self.norm3, run(self.conv3, x))
        shortcut = images
        if self.conv_proj is not None:
            shortcut = run(self.norm_proj, run(self.conv_proj, images))
        return ops.relu(shortcut + x)
