"""keras_vit."""

import warnings

import keras_vit
from peers import LEARNING_RATE, WEIGHT_DECAY
from peers.keras_models import KerasPeer

PATCH_DROPOUT_RATE = 0.5
RESNETS = {"R50": (3, 4, 9), "R26": (2, 2, 2, 2)}


def build(job):
    layers, heads, width, mlp = job.size
    patch, resnet = job.patch_size, None
    if job.hybrid:
        resnet = RESNETS[job.model.split("+")[0]]
        patch //= 2 ** (1 + len(resnet))  # of the feature map, not of the image
    model = keras_vit.VisionTransformer(
        job.image_size,
        patch,
        layers,
        heads,
        width,
        mlp,
        classes=job.classes,
        classifier_activation=None,
        resnet=resnet,
        patch_dropout_rate=PATCH_DROPOUT_RATE if job.switch == "patch_dropout" else 0.0,
    )
    if job.switch == "rematerialize":
        keras_vit.rematerialize(model)
    if job.switch == "int8":
        quantize(model)
    return keras_vit.fold_weight_standardization(model) if job.folded else model


def quantize(model):
    """Kernels and what they are multiplied with in int8; returns the model."""
    with warnings.catch_warnings():
        # Of every layer that has no kernel.
        warnings.filterwarnings("ignore", "Layer .* does not have a `quantize` method")
        model.quantize("int8")
    return model


class Peer(KerasPeer):
    def build(self, job):
        return build(job)

    def optimizer(self):
        return keras_vit.optimizers.AdamW(LEARNING_RATE, weight_decay=WEIGHT_DECAY)
