"""keras_vit: Vision Transformers in Keras 3, on TensorFlow, JAX and PyTorch."""

import importlib
from typing import TYPE_CHECKING

from keras_vit._backend import check_backend
from keras_vit._identity import DISTRIBUTION, check_identity

# Before Keras is imported: what is wrong with the installation is said here in a sentence.
check_identity()
check_backend()

from keras_vit import layers, losses, metrics, optimizers
from keras_vit.applications.bit_resnets import (
    BiT_R50x1,
    BiT_R50x2,
    BiT_R50x3,
    BiT_R101x1,
    BiT_R101x3,
    BiT_R152x1,
    BiT_R152x2,
    BiT_R152x4,
    BiT_R200x3,
)
from keras_vit.applications.hybrids import (
    R26_ViT_B32,
    R26_ViT_S32,
    R50_ViT_B16,
    R50_ViT_B32,
    R50_ViT_L16,
    R50_ViT_L32,
    R_ViT_Ti16,
)
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
from keras_vit.models.bit_resnet import BiTResNet
from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.fold import fold_weight_standardization
from keras_vit.models.freezing import freeze, linear_probe
from keras_vit.models.head_bias import set_head_bias
from keras_vit.models.image_model import ImageModel
from keras_vit.models.layout import layout_map
from keras_vit.models.macs import count_macs
from keras_vit.models.masked_patch_prediction import MaskedPatchPrediction
from keras_vit.models.rematerialization import rematerialize
from keras_vit.models.resize import resize
from keras_vit.models.spec import ViTSpec
from keras_vit.models.vision_transformer import VisionTransformer

if TYPE_CHECKING:  # for editors, as what follows is imported late
    from keras_vit import analysis
    from keras_vit.applications.decode import decode_predictions
    from keras_vit.applications.preprocess import preprocess_input
    from keras_vit.weights.loading import load_weights
    from keras_vit.weights.saving import save_weights

# Names to their modules, imported where they are used: building and training need none of the
# files behind them, half of what the import took.
_LATE = {
    "decode_predictions": "keras_vit.applications.decode",
    "load_weights": "keras_vit.weights.loading",
    "preprocess_input": "keras_vit.applications.preprocess",
    "save_weights": "keras_vit.weights.saving",
}

__distribution__ = DISTRIBUTION
__version__ = "0.1.0"

__all__ = [
    "BiTResNet",
    "BiTSpec",
    "BiT_R101x1",
    "BiT_R101x3",
    "BiT_R152x1",
    "BiT_R152x2",
    "BiT_R152x4",
    "BiT_R200x3",
    "BiT_R50x1",
    "BiT_R50x2",
    "BiT_R50x3",
    "ImageModel",
    "MaskedPatchPrediction",
    "R26_ViT_B32",
    "R26_ViT_S32",
    "R50_ViT_B16",
    "R50_ViT_B32",
    "R50_ViT_L16",
    "R50_ViT_L32",
    "R_ViT_Ti16",
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
    "count_macs",
    "decode_predictions",
    "fold_weight_standardization",
    "freeze",
    "layers",
    "layout_map",
    "linear_probe",
    "load_weights",
    "losses",
    "metrics",
    "optimizers",
    "preprocess_input",
    "rematerialize",
    "resize",
    "save_weights",
    "set_head_bias",
]


def __getattr__(name):
    if name == "analysis":
        return importlib.import_module("keras_vit.analysis")
    if name in _LATE:
        globals()[name] = getattr(importlib.import_module(_LATE[name]), name)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
