"""From a spec of any family to its model."""

from keras_vit.models.bit_resnet import build_bit
from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.spec import ViTSpec
from keras_vit.models.vision_transformer import build_vit

BUILDERS = {ViTSpec: build_vit, BiTSpec: build_bit}


def build_model(spec, input_tensor=None, name=None):
    """The model of a spec."""
    return BUILDERS[type(spec)](spec, input_tensor=input_tensor, name=name)
