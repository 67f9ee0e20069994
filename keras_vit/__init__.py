"""keras_vit: Vision Transformers in Keras 3, on TensorFlow, JAX and PyTorch."""

from keras_vit._backend import check_backend
from keras_vit._identity import DISTRIBUTION, check_identity

# Before Keras is imported: what is wrong with the installation is said here in a sentence.
check_identity()
check_backend()

from keras_vit import analysis, layers, optimizers
from keras_vit.applications.vision_transformers import (
    ViT_B8,
    ViT_B16,
    ViT_B32,
    ViT_G14,
    ViT_g14,
    ViT_H14,
    ViT_L14,
    ViT_L16,
    ViT_L32,
    ViT_S16,
    ViT_S32,
    ViT_Ti16,
)
from keras_vit.models.image_model import ImageModel
from keras_vit.models.resize import resize
from keras_vit.models.spec import ViTSpec
from keras_vit.models.vision_transformer import VisionTransformer

__distribution__ = DISTRIBUTION
__version__ = "0.1.0"

__all__ = [
    "ImageModel",
    "ViTSpec",
    "ViT_B16",
    "ViT_B32",
    "ViT_B8",
    "ViT_G14",
    "ViT_H14",
    "ViT_L14",
    "ViT_L16",
    "ViT_L32",
    "ViT_S16",
    "ViT_S32",
    "ViT_Ti16",
    "ViT_g14",
    "VisionTransformer",
    "analysis",
    "layers",
    "optimizers",
    "resize",
]
