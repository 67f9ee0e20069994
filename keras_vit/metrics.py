"""Accuracy where an image may be of several classes."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_vit")
class HitAtOne(keras.metrics.MeanMetricWrapper):
    """The share of images whose likeliest class is one of theirs, of targets `(B, K)` of 0 and 1.

    With one class an image it is the accuracy. The paper's code measures pre-training on images of
    several classes so.

    Args:
        name: String.
        dtype: Of the result.
    """

    def __init__(self, name="accuracy", dtype=None):
        super().__init__(hit_at_one, name=name, dtype=dtype)

    def get_config(self):
        return {"name": self.name, "dtype": self.dtype}


def hit_at_one(y_true, y_pred):
    """For each row the target of the class with the largest prediction."""
    best = ops.expand_dims(ops.argmax(y_pred, axis=-1), axis=-1)
    return ops.take_along_axis(ops.cast(y_true, "float32"), best, axis=-1)[..., 0]
