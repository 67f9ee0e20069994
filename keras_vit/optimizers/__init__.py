"""Optimizers that know which weights of a Vision Transformer decay."""

from keras_vit.optimizers.adamw import AdamW

__all__ = ["AdamW"]
