"""Rows of batches from a source that gives any image at any time: numbers, until they are read.

A row is `(position, first step, valid, number)`: where it stands in the run, the first step of its
pass, whether there is an image, and which.
"""

import dataclasses
import functools

from pipelines._tensorflow import tf
from pipelines.feed import bad_images

NOWHERE = -1  # the position of a row behind the end of a pass


@dataclasses.dataclass(frozen=True, eq=False)
class RandomAccess:
    """Rows of a `Source`, in an `Order`."""

    source: object
    order: object

    can_fail = False  # numbers are made here

    def training_rows(self, firsts, steps):
        """Rows of passes of training; behind each pass one step of rows that stand nowhere.

        Args:
            firsts: `tf.data.Dataset` of the first step of every pass, int64 scalars.
            steps: Integer, steps of a pass.
        """

        def of_pass(first):
            inside = tf.data.Dataset.range(first, first + steps)
            return inside.concatenate(_end()).map(lambda step: (step, first))

        return self._rows(firsts.flat_map(of_pass), self.order.images)

    def evaluation_rows(self, steps):
        """Rows of all images in their own order, filled up with rows without one."""
        zero = tf.constant(0, "int64")
        inside = tf.data.Dataset.range(steps).concatenate(_end()).map(lambda step: (step, zero))

        def numbers(step):
            positions = self.order.positions(step)
            return tf.where(positions < self.source.count, positions, -1)

        return self._rows(inside, numbers)

    def read(self, number):
        """`(data, label)` of a row's number."""
        return self.source.read(number), tf.gather(self._labels, number)

    def bad_image(self, position, first, channels, shuffled):
        """`(bad image, payload)` of the row at a position; see `bad_images.why_bad`."""
        number = position
        if shuffled:
            step = tf.constant(position // self.order.batch_size, "int64")
            place = position - int(self.order.positions(step)[0])
            number = int(self.order.images(step)[place])
        return bad_images.why_bad(self.source, number, channels), (tf.constant(number, "int64"),)

    def _rows(self, steps, numbers):
        count = self.order.local_batch_size

        def of_step(step, first):
            there, step = step >= 0, tf.maximum(step, 0)
            images = tf.where(there, numbers(step), -1)
            positions = tf.where(there, self.order.positions(step), NOWHERE)
            return positions, tf.fill((count,), first), images >= 0, tf.maximum(images, 0)

        return steps.map(of_step).unbatch()

    @functools.cached_property
    def _labels(self):
        with tf.init_scope():  # outlives the graph that asks for it first
            return tf.constant(self.source.labels)


def _end():
    return tf.data.Dataset.from_tensors(tf.constant(NOWHERE, "int64"))
