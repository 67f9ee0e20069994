"""A Keras model as a peer: what ours and KerasHub's have in common."""

import keras
import numpy as np


class KerasPeer:
    """`predict_on_batch` and `fit`, as Keras documents them, compiled as Keras does by itself."""

    def __init__(self, job):
        keras.config.set_dtype_policy(job.dtype)
        keras.utils.set_random_seed(0)
        self.job = job
        self.model = self.build(job)
        self.images = job.images()
        self._fit = None
        if job.compiled:  # what is not "auto" is left to the user: on torch that is torch.compile
            self.model.compile(jit_compile=True)
        self._call = _function(self.model, job) if job.resident else None

    def build(self, job):
        raise NotImplementedError

    def optimizer(self):
        raise NotImplementedError

    def forward(self):
        if self._call:
            return self._call()
        return self.model.predict_on_batch(self.images)

    def train(self, steps):
        if self._fit is None:
            self.model.compile(
                self.optimizer(),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                jit_compile=True if self.job.compiled else "auto",
            )
            images = np.concatenate([self.images] * steps)
            self._fit = images, np.concatenate([self.job.labels()] * steps)
        history = self.model.fit(
            *self._fit, batch_size=self.job.batch, epochs=1, shuffle=False, verbose=0
        )
        return history.history["loss"][0]


def _function(model, job):
    """A function of no arguments: the model on images that lie on the device, compiled."""
    images = keras.ops.convert_to_tensor(job.images(), model.compute_dtype)
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        state = [v.value for v in model.trainable_variables]
        others = [v.value for v in model.non_trainable_variables]
        call = jax.jit(lambda s, o, x: model.stateless_call(s, o, x, training=False)[0])
        return lambda: jax.block_until_ready(call(state, others, images))
    if backend == "tensorflow":
        import tensorflow as tf

        call = tf.function(lambda x: model(x, training=False), jit_compile=True)
        return lambda: call(images).numpy()
    import torch

    call = torch.compile(model) if job.compiled else model

    def run():
        with torch.inference_mode():
            return call(images, training=False).cpu()

    return run
