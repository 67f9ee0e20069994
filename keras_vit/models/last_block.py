"""The last encoder block, which computes no more than is read of it."""

import keras

from keras_vit.layers import EncoderBlock, TokenPooling
from keras_vit.models.spec import ViTSpec


def class_token_pass(model):
    """The forward pass in which the last block computes the class token alone.

    A classifier of the class token (equation 4 of arXiv 2010.11929) reads no other token of the
    last block: of that block 4 D^2 multiply-adds a token, of keys and values, are left of
    12 D^2 + 2 N D, one in fourteen of a model of twelve blocks. No compiler finds that out by
    itself. The graph stays as it is, so that what is built on its layers has all tokens.

    Args:
        model: An `ImageModel`.

    Returns:
        Function of images and `training` to what the model returns; or None where more than the
        class token is read.
    """
    if not isinstance(model.spec, ViTSpec) or len(model.inputs) != 1:
        return None
    blocks = [i for i, layer in enumerate(model.layers) if isinstance(layer, EncoderBlock)]
    if not blocks:
        return None
    block, after = model.layers[blocks[-1]], model.layers[blocks[-1] + 1 :]
    if not _pools_class_token(after) or not _is_chain([block, *after], model.outputs):
        return None
    before = keras.Model(model.inputs[0], block.input, name="before_last_block")

    def forward(images, training):
        tokens = before.call(images, training=training)
        tokens = block(tokens, num_queries=1, training=training)  # (B, 1, D)
        for layer in after:
            tokens = layer(tokens)
        return tokens

    return forward


def _pools_class_token(layers):
    """Whether nothing but a norm comes before the class token is taken."""
    for layer in layers:
        if isinstance(layer, TokenPooling):
            return layer.mode == "token"
        if not isinstance(layer, keras.layers.LayerNormalization):
            return False
    return False


def _is_chain(layers, outputs):
    """Whether each layer reads the one before it and no other, and the last one is the output."""
    pairs = zip(layers, layers[1:], strict=False)
    chained = all(layer.output is following.input for layer, following in pairs)
    return chained and len(outputs) == 1 and layers[-1].output is outputs[0]
