"""The forward pass of an image model, which keeps and computes no more than is read."""

import inspect

import keras

from keras_vit.layers import EncoderBlock, TokenPooling
from keras_vit.layers.platform import call_part
from keras_vit.models.image_spec import ImageSpec


def forward_pass(model):
    """The layers at the end of the model, called one after another.

    Keras's own walk over a graph keeps what each layer returned until the last one is done. Here
    it is let go once the next layer has read it. That is memory where nothing is compiled: on
    PyTorch, of the feature maps of a ResNet above all. The graph stays as it is, so that what is
    built on its layers has all that they return.

    Args:
        model: An `ImageModel`.

    Returns:
        Function of images and `training` to what the model returns; or None where the model ends
        in something else than one layer after another.
    """
    chain = _chain(model)
    if not chain:
        return None
    before = keras.Model(model.inputs[0], chain[0].input, name="before_the_chain")
    shortened = class_token_block(model)
    steps = [(layer, _takes_training(layer), layer is shortened) for layer in chain]

    def forward(images, training):
        x = before.call(images, training=training)
        for layer, takes_training, is_shortened in steps:
            arguments = {"training": training} if takes_training else {}
            if is_shortened:
                arguments["num_queries"] = 1
            x = call_part(model, layer, x, **arguments)
        return x

    return forward


def class_token_block(model):
    """The last encoder block, where the class token is all that is read of it; None elsewhere.

    A classifier of the class token (equation 4 of arXiv 2010.11929) reads no other token. Of that
    block 4 D^2 multiply-adds a token, of keys and values, are left of 12 D^2 + 2 N D, one in
    fourteen of a model of twelve blocks. No compiler finds that out by itself.
    """
    chain = _chain(model)
    blocks = [i for i, layer in enumerate(chain) if isinstance(layer, EncoderBlock)]
    if not blocks or not _pools_class_token(chain[blocks[-1] + 1 :]):
        return None
    return chain[blocks[-1]]


def _chain(model):
    """The longest run of layers up to the output that read the one before and nothing else.

    Without the first layer behind the images: Keras checks and converts them in a graph.
    """
    layers = model.layers
    if not isinstance(model.spec, ImageSpec) or len(model.inputs) != 1 or len(layers) < 3:
        return []
    if len(model.outputs) != 1 or layers[-1].output is not model.outputs[0]:
        return []
    start = len(layers) - 1
    while start > 2 and layers[start - 1].output is layers[start].input:
        start -= 1
    return layers[start:]


def _pools_class_token(layers):
    """Whether nothing but a norm comes before the class token is taken."""
    for layer in layers:
        if isinstance(layer, TokenPooling):
            return layer.mode == "token"
        if not isinstance(layer, keras.layers.LayerNormalization):
            return False
    return False


def _takes_training(layer):
    return "training" in inspect.signature(layer.call).parameters
