"""The loss of the paper's pre-training."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_vit")
class SigmoidCrossentropy(keras.losses.Loss):
    """Sigmoid cross-entropy of logits, summed over the classes.

    Each class is a question of yes or no, so that an image may be of several. Keras's
    `BinaryCrossentropy` takes the mean over the classes; the paper's code takes the sum, which
    matters for clipped gradients and for epsilons.

    Args:
        name: String.
        **kwargs: As of `keras.losses.Loss`.

    Call arguments:
        y_true: `(B, K)`, from 0 to 1.
        y_pred: Logits `(B, K)`.

    Example:

    >>> model.compile("adam", keras_vit.losses.SigmoidCrossentropy())
    """

    def __init__(self, name="sigmoid_crossentropy", **kwargs):
        super().__init__(name=name, **kwargs)

    def call(self, y_true, y_pred):
        y_true = ops.cast(y_true, y_pred.dtype)
        return ops.sum(ops.binary_crossentropy(y_true, y_pred, from_logits=True), axis=-1)
