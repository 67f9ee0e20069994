"""Which image stands where in a run of training."""

import dataclasses
import functools

import numpy as np

from keras_vit.layers import checks
from pipelines._tensorflow import tf


@dataclasses.dataclass(frozen=True)
class Order:
    """The order of training: a pure function of seed, step, host and hosts, without a buffer.

    An epoch is `steps_per_epoch` batches of a permutation of all images, which is another one in
    every epoch; images that fill no batch are left out of that epoch. A position counts the rows of
    all batches of all hosts from the start of training. Each host has its own rows of every batch.

    Attributes:
        count: Integer, images.
        batch_size: Integer, rows of a batch over all hosts.
        seed: Integer, not negative.
        hosts: Integer, processes that train together.
        host: Integer, this process's place among them.
    """

    count: int
    batch_size: int
    seed: int = 0
    hosts: int = 1
    host: int = 0

    def __post_init__(self):
        checks.positive_integer(self.batch_size, "batch_size")
        checks.positive_integer(self.seed, "seed", 0)
        if self.batch_size > self.count:
            raise ValueError(
                "`batch_size` must be from 1 to the number of training images, "
                f"{self.count}. Received: batch_size={self.batch_size}"
            )
        if self.batch_size % self.hosts or not 0 <= self.host < self.hosts:
            raise ValueError(
                "`batch_size` must be a multiple of the number of hosts, and `host` one of them. "
                f"Received: batch_size={self.batch_size}, hosts={self.hosts}, host={self.host}"
            )

    @property
    def steps_per_epoch(self):
        """Full batches in an epoch."""
        return self.count // self.batch_size

    @property
    def local_batch_size(self):
        """Rows of this host in every batch."""
        return self.batch_size // self.hosts

    def positions(self, step):
        """int64 `(local_batch_size,)`: the positions of this host's rows of a step."""
        first = step * self.batch_size + self.host * self.local_batch_size
        return first + tf.range(self.local_batch_size, dtype="int64")

    def images(self, step):
        """int64 `(local_batch_size,)`: the numbers of the images of this host's rows."""
        epoch, step_of_epoch = step // self.steps_per_epoch, step % self.steps_per_epoch
        # The public `tf.random.experimental.index_shuffle` fails on several indices (2.21).
        return tf.raw_ops.RandomIndexShuffle(
            index=self.positions(step_of_epoch),
            seed=tf.stack([self._keys[0], epoch, 0]),
            max_index=tf.constant(self.count - 1, "int64"),
            rounds=4,
        )

    def image_seed(self, position):
        """int64 `(2,)`: the seed of one image's augmentation."""
        return tf.stack([self._keys[1], position])

    def batch_seed(self, step, each_host=False):
        """int64 `(2,)`: the seed of what is drawn for a batch; the same on all hosts, or not."""
        return tf.stack([self._keys[2] + (self.host if each_host else 0), step])

    def epoch_seed(self, epoch):
        """int64 scalar: the seed of an epoch's shuffle of a stream."""
        return self._keys[3] * 1_000_003 + epoch

    @functools.cached_property
    def _keys(self):
        state = np.random.SeedSequence(self.seed).generate_state(4)
        return [np.int64(key) for key in state]
