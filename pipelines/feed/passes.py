"""Steps of training, in passes: `fit` makes a new iterator for every epoch."""

import numpy as np

from pipelines._tensorflow import tf

ENDLESS = 2**40


class Passes:
    """Lets every pass over a data set go on where the last whole one ended.

    A pass that was begun and not read to its last batch does not count: Keras looks at a first
    batch before it trains on some backends, and people do.

    Args:
        start_step: Integer, the first step of the first pass.
        steps: Integer, steps of a pass.
    """

    def __init__(self, start_step, steps):
        self.steps = steps
        self._next = start_step

    def begin(self):
        """int64 scalar tensor: the first step of the pass that begins."""
        step = tf.numpy_function(lambda: np.int64(self._next), [], tf.int64)
        return tf.ensure_shape(step, ())

    def handed_out(self, step, first):
        """To be called in the graph with the step of every batch that leaves; returns `step`."""

        def end(step):
            self._next = int(step) + 1
            return np.int64(step)

        last = tf.equal(step - first, self.steps - 1)
        return tf.cond(last, lambda: tf.numpy_function(end, [step], tf.int64), lambda: step)
