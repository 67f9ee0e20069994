"""The bias that a head starts from when each class is a yes-or-no question."""

import math

from keras_vit.layers import checks
from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.image_model import require_spec
from keras_vit.models.spec import ViTSpec


def set_head_bias(model, value=None):
    """Sets the bias of the head, so that a sigmoid starts near the classes' frequency.

    At 0 each of thousands of classes would start as likely as not, and the first steps would do
    nothing but unlearn that. The paper's code takes -10 for ImageNet-21k and -6.9 for ImageNet.

    Args:
        model: A model with a top.
        value: Float; None is -ln(classes), which is -6.9 for 1,000 classes.

    Returns:
        The same model.

    Raises:
        ValueError: if the model has no head.

    Example:

    >>> model = keras_vit.ViT_B16(weights=None, classes=21843, classifier_activation="sigmoid")
    >>> keras_vit.set_head_bias(model, -10.0)
    """
    spec = require_spec(model, "set_head_bias", families=(ViTSpec, BiTSpec))
    if not spec.include_top:
        raise ValueError("`set_head_bias` needs a model with a head. Received: include_top=False")
    bias = model.get_layer("head").bias
    value = -math.log(spec.classes) if value is None else checks.number(value, "value")
    bias.assign([value] * spec.classes)
    return model
