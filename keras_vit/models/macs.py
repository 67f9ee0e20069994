"""Multiply-adds of a model, counted from the shapes of its layers."""

import dataclasses
import functools
import math

import keras

from keras_vit import layers
from keras_vit.layers.residual_unit import ResidualUnit


@dataclasses.dataclass(frozen=True)
class MultiplyAdds:
    """The multiply-adds for one image. Printed, it is a table.

    Attributes:
        by_layer: `{layer: integer}` of the layers that multiply, in order.
    """

    by_layer: dict

    @property
    def total(self):
        """Those of all layers. Two floating-point operations each; training takes three times."""
        return sum(self.by_layer.values())

    def __str__(self):
        rows = [*self.by_layer.items(), ("total", self.total)]
        names = max(len(name) for name, _ in rows)
        numbers = max(len(f"{count:,}") for _, count in rows)
        return "\n".join(f"{name:<{names}}  {count:>{numbers},}" for name, count in rows)


def count_macs(model):
    """Counts the multiply-adds of one image through a model.

    Matrix products and convolutions are counted: patches, attention, MLPs, ResNet units, the
    classifier. Norms, activations, sums and pooling are not, nor is the standardisation of
    weights, which is done once a batch. Papers often call the same number FLOPs. All tokens of all
    blocks count, as in papers, though a classifier of the class token needs one of the last block.

    Args:
        model: An `ImageModel`, or a functional model of its layers and Keras's dense layers.

    Returns:
        A `MultiplyAdds`, with `total` and `by_layer`.

    Example:

    >>> print(keras_vit.count_macs(keras_vit.ViT_B16(weights=None)).total)
    17563828224
    """
    counts = {}
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            inner = count_macs(layer).by_layer
            counts.update({f"{layer.name}/{name}": count for name, count in inner.items()})
        else:
            counts[layer.name] = _macs(layer)
    return MultiplyAdds({name: count for name, count in counts.items() if count})


@functools.singledispatch
def _macs(layer):
    """Multiply-adds of one call of a layer, for one image."""
    return 0


@_macs.register
def _(layer: keras.layers.Dense):
    return math.prod(layer.input.shape[1:]) * layer.units


@_macs.register
def _(layer: layers.PatchEmbedding):
    return math.prod(layer.output.shape[1:]) * math.prod(layer.kernel.shape[:3])


@_macs.register
def _(layer: layers.EncoderBlock):
    tokens, width = layer.input.shape[1:]
    return _attention(layer.attention, tokens, tokens, width) + _mlp(layer.mlp, tokens, width)


@_macs.register
def _(layer: layers.AttentionPooling):
    tokens, width = layer.input.shape[1:]
    return _attention(layer.attention, 1, tokens, width) + _mlp(layer.mlp, 1, width)


@_macs.register
def _(layer: layers.StdConv2D):
    return _convolution(layer, layer.input.shape)


@_macs.register
def _(layer: ResidualUnit):
    shape = layer.input.shape
    total = 0 if layer.conv_proj is None else _convolution(layer.conv_proj, shape)
    for conv in (layer.conv1, layer.conv2, layer.conv3):
        total += _convolution(conv, shape)
        shape = conv.compute_output_shape(shape)
    return total


def _attention(attention, queries, keys, width):
    """Four projections, query times key, weights times value; and query times offset."""
    products = 2 if attention.relative_position is None else 3
    return (2 * queries + 2 * keys) * width**2 + products * queries * keys * width


def _mlp(mlp, tokens, width):
    return 2 * tokens * width * mlp.mlp_dim


def _convolution(conv, shape):
    return math.prod(conv.compute_output_shape(shape)[1:]) * math.prod(conv.kernel.shape[:3])
