"""The bottleneck unit of BiT: normalisation and activation before each convolution."""

import functools

import keras
from keras import ops

from keras_vit.layers.platform import call_part
from keras_vit.layers.residual_unit import ResidualUnit


@keras.saving.register_keras_serializable(package="keras_vit")
class PreActivationUnit(ResidualUnit):
    """A pre-activation bottleneck (ResNet V2) of standardised convolutions and group norms.

    With a = relu(norm1(x)): shortcut + conv3(relu(norm3(conv2(relu(norm2(conv1(a))))))). The
    shortcut is x, or conv_proj(a) where the shape changes. Padding is symmetric. Used by BiT
    (arXiv 1912.11370, section 3.1).

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

    padding = "symmetric"

    def build(self, input_shape):
        output_shape = self.compute_output_shape(input_shape)
        inside = (*input_shape[:-1], self.filters)
        strided = (*output_shape[:-1], self.filters)
        self.norm1 = self.norm("norm1", input_shape)
        self.conv1 = self.conv("conv1", self.filters, 1, 1, input_shape)
        self.norm2 = self.norm("norm2", inside)
        self.conv2 = self.conv("conv2", self.filters, 3, self.strides, inside)
        self.norm3 = self.norm("norm3", strided)
        self.conv3 = self.conv("conv3", output_shape[-1], 1, 1, strided)
        self.conv_proj = None
        if self.changes_shape(input_shape):
            self.conv_proj = self.conv("conv_proj", output_shape[-1], 1, self.strides, input_shape)

    def call(self, images):
        run = functools.partial(call_part, self)
        active = ops.relu(run(self.norm1, images))
        x = ops.relu(run(self.norm2, run(self.conv1, active)))  # (B, H, W, F)
        x = ops.relu(run(self.norm3, run(self.conv2, x)))  # (B, H / strides, W / strides, F)
        shortcut = images if self.conv_proj is None else run(self.conv_proj, active)
        return run(self.conv3, x) + shortcut
