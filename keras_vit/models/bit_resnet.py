"""The ResNets of Big Transfer (arXiv 1912.11370), the paper's baselines "ResNet (BiT)".

They are pre-activation ResNets with group norm and standardised convolutions. In the constants
they differ from the ResNet stem of the hybrids everywhere: padding, epsilons and the order of
layers are other ones.

Layers and variables, with s and u counted from 1:

    stem_conv/kernel (7, 7, C, 64 w), then the layer stem_pool
    stage_{s}_unit_{u}/norm1|norm2|norm3/gamma, beta
    stage_{s}_unit_{u}/conv1|conv2|conv3/kernel, /conv_proj/kernel in the first unit of a stage
    norm/gamma, beta
    head/kernel (C', K), head/bias (K,)

Feature maps: the layers `model.spec.stage_layers`, the last unit of each stage, at 1/4, 1/8, 1/16
and 1/32 of the image; and the layer `features`, the last one after norm and activation.
"""

import dataclasses

import keras

from keras_vit.layers import GroupNorm, MaxPooling, PreActivationUnit, StdConv2D
from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.classifier import classifier
from keras_vit.models.image_model import ImageModel
from keras_vit.models.inputs import image_input, in_range
from keras_vit.models.resnet_stem import stem_width, units

NORM_EPSILON = 1e-5


def BiTResNet(
    image_size,
    num_layers=(3, 4, 6, 3),
    width=1.0,
    *,
    classes=1000,
    include_top=True,
    classifier_activation="softmax",
    pooling="avg",
    include_preprocessing=False,
    channels=3,
    input_tensor=None,
    dtype=None,
    name=None,
):
    """Builds a BiT ResNet of any size (arXiv 1912.11370).

    Images are channels-last `(B, H, W, C)` in [-1, 1]. Sizes are `(height, width)`; any is allowed,
    the feature maps round up.

    Args:
        image_size: Integer or `(height, width)` in pixels.
        num_layers: Tuple, the number of units in each stage. `(3, 4, 6, 3)` is R50, `(3, 4, 23, 3)`
            R101, `(3, 8, 36, 3)` R152.
        width: Float, channels as a multiple of the usual 64 in the stem; a multiple of 0.5.
        classes: Integer K.
        include_top: Whether the model ends in the classifier.
        classifier_activation: Name of the classifier's activation; None gives logits.
        pooling: `"avg"` or `"max"` over the image, before the classifier or instead of it. None is
            the average with a top, and the feature map `(B, h, w, C')` without.
        include_preprocessing: Whether the model takes pixels of 0 to 255 and scales them itself.
        channels: Integer C.
        input_tensor: A Keras tensor `(B, H, W, C)` to build on, or None.
        dtype: Dtype or name of a dtype policy; None is Keras's global one. Logits and softmax are
            float32 under 16-bit policies.
        name: Name of the model.

    Returns:
        An `ImageModel`; with a top `(B, K)`, else `(B, C')`, or `(B, h, w, C')` where
        `pooling=None`. The feature map of stage s is
        `model.get_layer(model.spec.stage_layers[s - 1]).output`.

    Raises:
        ValueError: if the arguments describe no model.

    Example:

    >>> model = keras_vit.BiTResNet((64, 96), num_layers=(1, 1, 1, 1), width=0.5, classes=7)
    >>> model.spec.stage_layers
    ('stage_1_unit_1', 'stage_2_unit_1', 'stage_3_unit_1', 'stage_4_unit_1')
    """
    fields = dict(locals())
    input_tensor, name = fields.pop("input_tensor"), fields.pop("name")
    return build_bit(BiTSpec(**fields), input_tensor=input_tensor, name=name)


def build_bit(spec, input_tensor=None, name=None):
    """The model of a `BiTSpec`."""
    # By name and resolved, so that the config is plain and `resize` keeps the precision.
    dtype = keras.dtype_policies.get(spec.dtype).name
    spec = dataclasses.replace(spec, dtype=dtype)
    inputs, x = image_input(spec, input_tensor)
    x = in_range(spec, x, dtype)
    x = _stages(spec, x, dtype)
    x = GroupNorm(epsilon=NORM_EPSILON, name="norm", dtype=dtype)(x)
    x = keras.layers.Activation("relu", name="features", dtype=dtype)(x)  # (B, h, w, C')
    if spec.pooling is not None:
        x = _pooling(spec.pooling, dtype)(x)
    if spec.include_top:
        x = classifier(spec, x, dtype)
    return ImageModel(inputs, x, name=name or "bit_resnet", spec=spec)


def _stages(spec, x, dtype):
    width = stem_width(spec.width, "width")
    standardization = None if spec.folded else "bit"
    x = StdConv2D(
        width,
        7,
        strides=2,
        padding="symmetric",
        standardization=standardization,
        name="stem_conv",
        dtype=dtype,
    )(x)
    # No activation comes before: the border must not win over negative numbers.
    x = MaxPooling(3, strides=2, padding="symmetric", name="stem_pool", dtype=dtype)(x)
    for name, filters, strides in units(spec.num_layers, width):
        x = PreActivationUnit(
            filters, strides, standardization, epsilon=NORM_EPSILON, name=name, dtype=dtype
        )(x)
    return x


def _pooling(kind, dtype):
    layers = {
        "avg": keras.layers.GlobalAveragePooling2D,
        "max": keras.layers.GlobalMaxPooling2D,
    }
    return layers[kind](data_format="channels_last", name="pooling", dtype=dtype)
