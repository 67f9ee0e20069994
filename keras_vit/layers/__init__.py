"""Layers: one a file, one idea each.

Shapes in comments and docstrings use one legend: B images, H x W pixels, C channels, N tokens,
D width of a token, h heads of width d = D / h, M hidden width of the MLP, K classes.
"""

from keras_vit.layers.attention import MultiHeadAttention
from keras_vit.layers.attention_pooling import AttentionPooling
from keras_vit.layers.bottleneck import BottleneckUnit
from keras_vit.layers.class_token import ClassToken
from keras_vit.layers.encoder_block import EncoderBlock
from keras_vit.layers.group_norm import GroupNorm
from keras_vit.layers.layer_norm import LayerNorm
from keras_vit.layers.layer_scale import LayerScale
from keras_vit.layers.max_pooling import MaxPooling
from keras_vit.layers.mlp import MLP
from keras_vit.layers.patch_dropout import PatchDropout
from keras_vit.layers.patch_embedding import PatchEmbedding
from keras_vit.layers.pixel_normalization import PixelNormalization
from keras_vit.layers.position_embedding import PositionEmbedding
from keras_vit.layers.position_embedding_2d import PositionEmbedding2D
from keras_vit.layers.preactivation_bottleneck import PreActivationUnit
from keras_vit.layers.register_tokens import RegisterTokens
from keras_vit.layers.relative_position import RelativePosition
from keras_vit.layers.sincos_position_embedding import SinCosPositionEmbedding
from keras_vit.layers.std_conv import StdConv2D
from keras_vit.layers.token_pooling import TokenPooling

__all__ = [
    "AttentionPooling",
    "BottleneckUnit",
    "ClassToken",
    "EncoderBlock",
    "GroupNorm",
    "LayerNorm",
    "LayerScale",
    "MLP",
    "MaxPooling",
    "MultiHeadAttention",
    "PatchDropout",
    "PatchEmbedding",
    "PixelNormalization",
    "PositionEmbedding",
    "PositionEmbedding2D",
    "PreActivationUnit",
    "RegisterTokens",
    "RelativePosition",
    "SinCosPositionEmbedding",
    "StdConv2D",
    "TokenPooling",
]
