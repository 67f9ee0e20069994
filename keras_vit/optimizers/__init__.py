"""Optimizers that know which weights of a Vision Transformer decay, and learning-rate schedules."""

from keras_vit.optimizers.adamw import AdamW
from keras_vit.optimizers.layerwise import layerwise_factors
from keras_vit.optimizers.schedules import WarmupCosine, WarmupLinear, WarmupRsqrt, WarmupSteps
from keras_vit.optimizers.sgd import SGD

__all__ = [
    "AdamW",
    "SGD",
    "WarmupCosine",
    "WarmupLinear",
    "WarmupRsqrt",
    "WarmupSteps",
    "layerwise_factors",
]
