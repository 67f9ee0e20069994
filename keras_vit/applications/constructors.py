"""What makes a named constructor from a row of sizes, in the manner of `keras.applications`."""

import re

import keras

from keras_vit.layers import checks
from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.build import build_model
from keras_vit.models.resnet_stem import num_halvings
from keras_vit.models.spec import ViTSpec

_BEGINNING = """Builds {title} ({paper}): {parameters}.

Images are channels-last `(B, H, W, C)` in [-1, 1]; `include_preprocessing=True` takes pixels of 0
to 255 instead. Sizes are `(height, width)`.

Args:
    include_top: Whether the model ends in the classifier.
    weights: None for fresh weights; a name such as `"imagenet"` or `"imagenet21k"` (a wrong one
        lists those that there are); the path of a file or folder (Google's `.npz`, timm's or
        transformers' `.safetensors`, `.weights.h5`, `.keras`); or `"hf://organisation/repository"`.
        The file decides the constants of its origin, the class token, registers and the like.
    input_tensor: A Keras tensor `(B, H, W, C)` to build on, or None.
    input_shape: `(H, W, C)`; {sizes}, C is any. None is
        the resolution of the weights, (224, 224, 3) without, or the shape of `input_tensor`.
"""

_ENDING = """    dtype: Dtype or name of a dtype policy; None is Keras's global one.
    name: Name of the model.

Returns:
    An `ImageModel`; with a top `(B, K)`, else {output} where `pooling=None`.

Raises:
    ValueError: if the arguments describe no model, or the weights do not fit it.

Example:

>>> model = keras_vit.{name}(weights=None, classes=10, input_shape={example})
"""

_VIT_DOC = f"""{_BEGINNING}\
    pooling: What the classifier reads, or what is returned without a top: `"token"`, `"avg"` or
        `"max"` over the patches, or `"map"`. None is the class token with a top, and all tokens
        `(B, N, D)`, the class token first, without.
    classes: Integer K; None is the file's number, else 1000. Another number than the file's gives
        a fresh zero head, for fine-tuning.
    classifier_activation: Name of the classifier's activation; None gives logits.
    include_preprocessing: Whether the model scales pixels of 0 to 255 itself.
    representation_size: None, or the width of a tanh layer before the classifier.
    dropout_rate: Float, after the positions and every dense layer but query, key and value.
    attention_dropout_rate: Float, on the attention probabilities.
    drop_path_rate: Float, stochastic depth of the last block; it grows linearly from 0.
    patch_dropout_rate: Float, the share of the patches that an image loses in training.
    position_embedding: `"learned"`, `"none"`, `"learned_2d"`, `"relative"` or `"sincos2d"`.
    position_injection: `"stem"`, `"every_layer"` or `"shared"`.
{_ENDING}"""

_BIT_DOC = f"""{_BEGINNING}\
    pooling: `"avg"` or `"max"` over the image. None is the average with a top, and the feature map
        `(B, h, w, C')` without.
    classes: Integer K; None is the file's number, else 1000. Another number than the file's gives
        a fresh zero head, for fine-tuning.
    classifier_activation: Name of the classifier's activation; None gives logits.
    include_preprocessing: Whether the model scales pixels of 0 to 255 itself.
{_ENDING}"""


def vit_constructor(name, size):
    """The constructor of a Vision Transformer or a hybrid, from its `ViTSize`."""

    def build(
        include_top=True,
        weights="imagenet",
        input_tensor=None,
        input_shape=None,
        pooling=None,
        classes=None,
        classifier_activation="softmax",
        *,
        include_preprocessing=False,
        representation_size=None,
        dropout_rate=size.dropout_rate,
        attention_dropout_rate=0.0,
        drop_path_rate=0.0,
        patch_dropout_rate=0.0,
        position_embedding="learned",
        position_injection="stem",
        dtype=None,
        name=None,
    ):
        height, width, channels = _image_shape(input_shape, input_tensor)
        spec = ViTSpec(
            image_size=(height, width),
            patch_size=size.patch_size,
            num_layers=size.num_layers,
            num_heads=size.num_heads,
            hidden_dim=size.hidden_dim,
            mlp_dim=size.mlp_dim,
            channels=channels,
            classes=1000 if classes is None else classes,
            include_top=include_top,
            classifier_activation=classifier_activation,
            pooling=pooling,
            representation_size=representation_size,
            position_embedding=position_embedding,
            position_injection=position_injection,
            class_token=True,
            resnet=size.resnet,
            dropout_rate=dropout_rate,
            attention_dropout_rate=attention_dropout_rate,
            drop_path_rate=drop_path_rate,
            patch_dropout_rate=patch_dropout_rate,
            include_preprocessing=include_preprocessing,
            dtype=dtype,
        )
        chosen = _chosen(input_shape, input_tensor, spec, classes=classes)
        chosen.update(pooling=pooling, representation_size=representation_size)
        if position_embedding != "learned":
            chosen["position_embedding"] = position_embedding
        name = name or build.__name__.lower()
        return _build(build.__name__, spec, chosen, weights, input_tensor, name)

    return _named(build, name, _VIT_DOC, **_vit_facts(name, size))


def bit_constructor(name, size):
    """The constructor of a BiT ResNet, from its `BiTSize`."""

    def build(
        include_top=True,
        weights="imagenet",
        input_tensor=None,
        input_shape=None,
        pooling=None,
        classes=None,
        classifier_activation="softmax",
        *,
        include_preprocessing=False,
        dtype=None,
        name=None,
    ):
        height, width, channels = _image_shape(input_shape, input_tensor)
        spec = BiTSpec(
            image_size=(height, width),
            num_layers=size.num_layers,
            width=size.width,
            channels=channels,
            classes=1000 if classes is None else classes,
            include_top=include_top,
            classifier_activation=classifier_activation,
            pooling=pooling,
            include_preprocessing=include_preprocessing,
            dtype=dtype,
        )
        chosen = _chosen(input_shape, input_tensor, spec, classes=classes)
        name = name or build.__name__.lower()
        return _build(build.__name__, spec, chosen, weights, input_tensor, name)

    return _named(
        build,
        name,
        _BIT_DOC,
        title=name.replace("_", "-"),
        paper="arXiv 1912.11370",
        parameters=f"stages of {size.num_layers} units, {64 * size.width} channels in the stem",
        sizes="H and W are any",
        output="`(B, C')`, or `(B, h, w, C')`",
        example="(160, 224, 3)",
    )


def _vit_facts(name, size):
    stem, letters, number = re.fullmatch(r"(?:(R\d*)_)?ViT_([A-Za-z]+)(\d+)", name).groups()
    parameters = f"{size.num_layers} blocks of width {size.hidden_dim}, {size.num_heads} heads"
    patch, reduction = size.patch_size, 1
    if size.resnet is None:
        sizes = f"H and W are multiples of {patch}"
        parameters += f", patches of {patch}x{patch}"
    else:
        reduction = 2 ** num_halvings(size.resnet)
        sizes = f"ceil(H / {reduction}) is a multiple of {patch}, as with W" if patch > 1 else None
        parameters += f", on a ResNet of {size.resnet} units"
    return {
        "title": f"{f'{stem}+' if stem else ''}ViT-{letters}/{number}",
        "paper": "arXiv 2010.11929",
        "parameters": parameters,
        "sizes": sizes or "H and W are any",
        "output": "`(B, D)`, or `(B, N, D)`",
        "example": f"({12 * patch * reduction}, {16 * patch * reduction}, 3)",
    }


def _named(build, name, doc, **facts):
    build.__name__ = build.__qualname__ = name
    build.__module__ = "keras_vit"
    build.__doc__ = doc.format(name=name, **facts)
    return build


def _build(constructor, spec, chosen, weights, input_tensor, name):
    if weights is None:
        return build_model(spec, input_tensor=input_tensor, name=name)
    from keras_vit.applications.pretrained import build_with_weights  # half of all imports

    return build_with_weights(constructor, spec, chosen, weights, input_tensor, name)


def _chosen(input_shape, input_tensor, spec, **others):
    """The arguments that were given, for a file to agree with; see `build_with_weights`."""
    if input_shape is None and input_tensor is None:
        return others
    return {"image_size": spec.image_size, "channels": spec.channels, **others}


def _image_shape(input_shape, input_tensor):
    """`(H, W, C)` from the arguments of a named constructor."""
    if input_tensor is not None and isinstance(input_tensor, keras.KerasTensor):
        tensor_shape = tuple(input_tensor.shape[1:])
        if input_shape is not None and tuple(input_shape) != tensor_shape:
            raise ValueError(
                "`input_shape` and `input_tensor` must agree. Received: "
                f"input_shape={tuple(input_shape)}, input_tensor.shape={tuple(input_tensor.shape)}"
            )
        input_shape = tensor_shape
    shape = (224, 224, 3) if input_shape is None else input_shape
    if not isinstance(shape, (tuple, list)) or len(shape) != 3 or None in shape:
        raise ValueError(
            "`input_shape` must be `(height, width, channels)`, all known. "
            f"Received: input_shape={shape!r}"
        )
    shape = tuple(checks.positive_integer(size, "input_shape") for size in shape)
    if shape[0] in (1, 3) and shape[2] > 4:
        raise ValueError(
            "`input_shape` must be `(height, width, channels)`, with the channels last. "
            f"Received: input_shape={shape}. Did you mean {(*shape[1:], shape[0])}?"
        )
    return shape
