"""KerasHub's ViTImageClassifier. It imports TensorFlow on every backend."""

import keras
import keras_hub

from peers import LEARNING_RATE, WEIGHT_DECAY, refuse_hybrid
from peers.keras_models import KerasPeer


def build(job):
    refuse_hybrid(job, "KerasHub")
    layers, heads, width, mlp = job.size
    backbone = keras_hub.models.ViTBackbone(
        (job.image_size, job.image_size, 3), job.patch_size, layers, heads, width, mlp
    )
    return keras_hub.models.ViTImageClassifier(backbone, job.classes)


class Peer(KerasPeer):
    def build(self, job):
        return build(job)

    def optimizer(self):
        return keras.optimizers.AdamW(LEARNING_RATE, weight_decay=WEIGHT_DECAY)
