"""The Vision Transformer (arXiv 2010.11929, figure 1), built as a functional Keras model."""

import dataclasses

import keras

from keras_vit.layers import (
    AttentionPooling,
    ClassToken,
    EncoderBlock,
    PatchDropout,
    PatchEmbedding,
    PositionEmbedding,
    PositionEmbedding2D,
    RegisterTokens,
    SinCosPositionEmbedding,
    TokenPooling,
)
from keras_vit.layers.seeds import resolve_seed
from keras_vit.models.classifier import classifier
from keras_vit.models.image_model import ImageModel
from keras_vit.models.inputs import image_input, in_range
from keras_vit.models.resnet_stem import resnet_stem
from keras_vit.models.spec import ViTSpec


def VisionTransformer(
    image_size,
    patch_size,
    num_layers,
    num_heads,
    hidden_dim,
    mlp_dim,
    *,
    classes=1000,
    include_top=True,
    classifier_activation="softmax",
    pooling="token",
    representation_size=None,
    position_embedding="learned",
    position_injection="stem",
    class_token=None,
    class_token_position=True,
    num_registers=0,
    norm_after_pool=False,
    layer_scale=None,
    qk_norm=False,
    origin="google",
    activation=None,
    layer_norm_epsilon=None,
    resnet=None,
    resnet_width=1.0,
    dropout_rate=0.0,
    attention_dropout_rate=0.0,
    drop_path_rate=0.0,
    patch_dropout_rate=0.0,
    include_preprocessing=False,
    channels=3,
    input_tensor=None,
    dtype=None,
    name=None,
):
    """Builds a Vision Transformer of any size (arXiv 2010.11929).

    Images are channels-last `(B, H, W, C)` in [-1, 1]. Sizes are `(height, width)`.

    Args:
        image_size: Integer or `(height, width)` in pixels, multiples of the patch's.
        patch_size: Integer or `(height, width)` in pixels, of the image or, in a hybrid, of the
            ResNet's feature map.
        num_layers: Integer L, encoder blocks.
        num_heads: Integer h, attention heads; it divides `hidden_dim`.
        hidden_dim: Integer D, the width of a token.
        mlp_dim: Integer M, the hidden width of the MLPs.
        classes: Integer K.
        include_top: Whether the model ends in the classifier.
        classifier_activation: Name of the classifier's activation; None gives logits.
        pooling: What the classifier reads, or what is returned without a top: `"token"`, the
            class token; `"avg"` or `"max"` over the patches; `"map"`, attention pooling. None is
            the class token with a top, and all tokens `(B, N, D)` without.
        representation_size: None, or the width of a tanh layer before the classifier (the paper's
            pre-training head).
        position_embedding: `"learned"`, `"none"`, `"learned_2d"`, `"relative"` (table 8 of the
            paper) or the fixed `"sincos2d"`.
        position_injection: `"stem"` adds positions once, `"every_layer"` before each block from a
            table of its own, `"shared"` before each block from one table (table 8).
        class_token: Whether there is a class token; None is: where token pooling needs it.
        class_token_position: Whether prefix tokens have positions of their own. False adds
            positions to the patches only, as big_vision and DeiT III do.
        num_registers: Integer, register tokens between the class token and the patches.
        norm_after_pool: Whether the final norm comes after the pooling (timm's `fc_norm`).
        layer_scale: None, or the float at which the residual branches' factors start.
        qk_norm: Whether queries and keys are normalised by head.
        origin: `"google"`, `"timm"` or `"huggingface"`: the implementation whose constants hold
            (exact or tanh GELU, epsilons of norms, weight standardisation of a ResNet,
            interpolation of positions).
        activation: Name of the MLPs' activation, instead of the origin's: `"gelu_tanh"`,
            `"gelu"` (exact) or one that Keras knows.
        layer_norm_epsilon: Float, instead of the origin's.
        resnet: None, or the number of units in each stage of a ResNet that the patches are taken
            from, a hybrid (section 3.1 of the paper). `()` is its stem alone, which divides the
            image by 4; `(3, 4, 9)` is R50 at 1/16, `(3, 4, 6, 3)` at 1/32. Sides that do not
            divide are rounded up.
        resnet_width: Float, channels of the ResNet as a multiple of the usual 64.
        dropout_rate: Float, after the positions and every dense layer but query, key and value.
        attention_dropout_rate: Float, on the attention probabilities.
        drop_path_rate: Float, stochastic depth of the last block; it grows linearly from 0.
        patch_dropout_rate: Float, the share of the patches that an image loses in training, see
            `PatchDropout`.
        include_preprocessing: Whether the model takes pixels of 0 to 255 and scales them itself.
        channels: Integer C.
        input_tensor: A Keras tensor `(B, H, W, C)` to build on, or None.
        dtype: Dtype or name of a dtype policy; None is Keras's global one. Logits and softmax are
            float32 under 16-bit policies.
        name: Name of the model.

    Returns:
        An `ImageModel`; with a top `(B, K)`, else `(B, D)`, or `(B, N, D)` where `pooling=None`.

    Raises:
        ValueError: if the arguments describe no model.

    Example:

    >>> model = keras_vit.VisionTransformer(
    ...     image_size=(32, 48), patch_size=8, num_layers=3, num_heads=3, hidden_dim=48,
    ...     mlp_dim=96, classes=7, classifier_activation=None)
    >>> model.output_shape
    (None, 7)
    """
    fields = dict(locals())
    input_tensor, name = fields.pop("input_tensor"), fields.pop("name")
    return build_vit(ViTSpec(**fields), input_tensor=input_tensor, name=name)


def build_vit(spec, input_tensor=None, name=None):
    """The model of a `ViTSpec`."""
    # By name and resolved, so that the config is plain and `resize` keeps the precision.
    dtype = keras.dtype_policies.get(spec.dtype).name
    spec = dataclasses.replace(spec, dtype=dtype)
    inputs, x = image_input(spec, input_tensor)
    x = in_range(spec, x, dtype)
    if spec.resnet is not None:
        x = resnet_stem(spec, x, dtype)
    x = PatchEmbedding(spec.patch_size, spec.hidden_dim, name="patch_embedding", dtype=dtype)(x)
    x = _prefix_tokens(spec, x, dtype)
    x = _encoder(spec, x, dtype)
    x = _pool(spec, x, dtype)
    if spec.include_top:
        x = _top(spec, x, dtype)
    return ImageModel(inputs, x, name=name or "vision_transformer", spec=spec)


def _prefix_tokens(spec, x, dtype):
    """(B, gh * gw, D) -> (B, prefix + gh * gw, D), in the order class token, registers, patches."""
    if spec.num_registers:
        x = RegisterTokens(spec.num_registers, name="register_tokens", dtype=dtype)(x)
    if spec.class_token:
        x = ClassToken(name="class_token", dtype=dtype)(x)
    return x


def _encoder(spec, x, dtype):
    positions = _position_layers(spec, dtype)
    for i in range(spec.num_layers):
        if positions[i] is not None:
            x = positions[i](x)
        if i == 0 and spec.patch_dropout_rate:
            x = PatchDropout(
                spec.patch_dropout_rate, spec.prefix_tokens, name="patch_dropout", dtype=dtype
            )(x)
        if i == 0 and spec.dropout_rate:
            rate, seed = spec.dropout_rate, resolve_seed(None)
            x = keras.layers.Dropout(rate, seed=seed, name="dropout", dtype=dtype)(x)
        x = _block(spec, i, dtype)(x)
    return x


def _position_layers(spec, dtype):
    """The layer that adds positions before each block, or None; they may be one and the same."""
    kinds = {
        "learned": PositionEmbedding,
        "learned_2d": PositionEmbedding2D,
        "sincos2d": SinCosPositionEmbedding,
    }
    kind = kinds.get(spec.position_embedding)
    if kind is None:
        return [None] * spec.num_layers

    def layer(name):
        skip = spec.prefix_tokens - spec.position_prefix
        return kind(spec.grid, spec.position_prefix, skip, name=name, dtype=dtype)

    first, others = layer("position_embedding"), range(1, spec.num_layers)
    if spec.position_injection == "every_layer":
        return [first, *(layer(f"position_embedding_{i}") for i in others)]
    return [first, *(first if spec.position_injection == "shared" else None for _ in others)]


def _block(spec, i, dtype):
    return EncoderBlock(
        num_heads=spec.num_heads,
        mlp_dim=spec.mlp_dim,
        activation=spec.activation,
        layer_norm_epsilon=spec.layer_norm_epsilon,
        dropout_rate=spec.dropout_rate,
        attention_dropout_rate=spec.attention_dropout_rate,
        drop_path_rate=spec.drop_path_rate * i / max(1, spec.num_layers - 1),
        layer_scale=spec.layer_scale,
        qk_norm=spec.qk_norm,
        relative_grid=spec.grid if spec.position_embedding == "relative" else None,
        prefix_tokens=spec.prefix_tokens,
        name=f"block_{i}",
        dtype=dtype,
    )


def _pool(spec, x, dtype):
    norm = keras.layers.LayerNormalization(
        epsilon=spec.layer_norm_epsilon, name="norm", dtype=dtype
    )
    if not spec.norm_after_pool:
        x = norm(x)
    if spec.pooling == "map":
        x = AttentionPooling(
            spec.num_heads,
            spec.mlp_dim,
            activation=spec.activation,
            layer_norm_epsilon=spec.layer_norm_epsilon,
            name="map_pooling",
            dtype=dtype,
        )(x)
    elif spec.pooling is not None:
        x = TokenPooling(spec.pooling, spec.prefix_tokens, name="pooling", dtype=dtype)(x)
    return norm(x) if spec.norm_after_pool else x


def _top(spec, x, dtype):
    if spec.representation_size is not None:
        x = keras.layers.Dense(
            spec.representation_size,
            activation="tanh",
            kernel_initializer="lecun_normal",
            name="pre_logits",
            dtype=dtype,
        )(x)
    return classifier(spec, x, dtype)
