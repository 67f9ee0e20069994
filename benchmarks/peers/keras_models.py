"""A Keras model as a peer: what ours and KerasHub's have in common."""

import random

import keras
import numpy as np

from peers import loops

STEPS_PER_EXECUTION = 4


class KerasPeer:
    """`predict_on_batch` and `fit`, as Keras documents them, compiled as Keras does by itself."""

    def __init__(self, job):
        keras.config.set_dtype_policy(job.dtype)
        # Keras takes its seeds from it. `keras.utils.set_random_seed` would load TensorFlow.
        random.seed(0)
        self.job = job
        self.model = self.build(job)
        self.images = job.images()
        self._forward = self._train = self._fit = None
        self._compile = {"jit_compile": _jit(job)}
        if job.switch == "steps_per_execution":
            self._compile["steps_per_execution"] = STEPS_PER_EXECUTION
        self.model.compile(**self._compile)

    def build(self, job):
        raise NotImplementedError

    def optimizer(self):
        raise NotImplementedError

    def forward(self):
        if self.job.resident:
            self._forward = self._forward or loops.forward(self.model, self.job)
            return self._forward()
        return self.model.predict_on_batch(self.images)

    def train(self, steps):
        if self.job.resident:
            self._train = self._train or loops.training(self.model, self.optimizer(), self.job)
            return self._train(steps)
        if self._fit is None:
            self.model.compile(
                self.optimizer(),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                **self._compile,
            )
            self._fit = _batches(self.images, self.job.labels(), steps)
        history = self.model.fit(**self._fit, epochs=1, shuffle=False, verbose=0)
        return history.history["loss"][0]


def _batches(images, labels, steps):
    """So many batches, as arguments of `fit`.

    On TensorFlow not as arrays. Keras makes a data set of them whose end waits for tf.data's
    autotuning, up to as long again as the training took (TensorFlow 2.21 on busy cores).
    """
    if keras.backend.backend() != "tensorflow":
        x, y = (np.concatenate([array] * steps) for array in (images, labels))
        return {"x": x, "y": y, "batch_size": len(images)}
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    dataset = tf.data.Dataset.from_tensors((images, labels)).repeat(steps)
    return {"x": dataset.with_options(options)}


def _jit(job):
    """`jit_compile` of Keras. By itself it compiles on JAX, and on TensorFlow's accelerators."""
    if job.switch == "jit_compile":
        backend, device = keras.backend.backend(), keras.distribution.list_devices()[0].lower()
        return backend == "torch" or (backend == "tensorflow" and device.startswith("cpu"))
    return True if job.compiled else "auto"
