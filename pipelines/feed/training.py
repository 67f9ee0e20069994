"""Batches to train on: shuffled, augmented, and the same wherever and whenever they are made."""

import dataclasses

from pipelines._tensorflow import tf
from pipelines.feed.batches import batched, example_or_nothing, raise_for, without_autograph
from pipelines.feed.passes import ENDLESS, Passes
from pipelines.feed.views import in_model_range, training_view


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingData:
    """What training batches are made of.

    Attributes:
        rows: A `RandomAccess` or an `InSequence`.
        augment: An `Augment`.
        targets: A `Targets`.
        spec: The model's.
    """

    rows: object
    augment: object
    targets: object
    spec: object

    @without_autograph
    def endless(self, start_step=0):
        """All batches from a step on, for `fit(..., steps_per_epoch=...)`.

        Every iterator begins at `start_step`. With random access that costs nothing, however far it
        is; a stream is read up to there, but not decoded.
        """
        firsts = tf.data.Dataset.from_tensors(tf.constant(start_step, "int64"))
        batches = self._batches(firsts, ENDLESS).map(lambda step, first, *batch: batch)
        batches = batches.prefetch(tf.data.AUTOTUNE)
        return batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))

    @without_autograph
    def passes(self, start_step=0):
        """An epoch's number of batches, and at the next iterator the ones after them, for `fit`."""
        steps = self.rows.order.steps_per_epoch
        passes = Passes(start_step, steps)
        firsts = tf.data.Dataset.from_tensors(0).map(lambda _: passes.begin())

        def hand_out(step, first, *batch):
            with tf.control_dependencies([passes.handed_out(step, first)]):
                return tf.nest.map_structure(tf.identity, batch)

        batches = self._batches(firsts, steps).prefetch(tf.data.AUTOTUNE).map(hand_out)
        return batches.apply(tf.data.experimental.assert_cardinality(steps))

    def _batches(self, firsts, steps):
        """Batches `(step, first step, images, targets)`: so many from every first step on."""
        rows = self.rows.training_rows(firsts, steps)
        batches = batched(
            rows, self._example, self.rows.order, self._explain, self.rows.can_fail
        ).take(steps)
        return batches.map(self._finished, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

    def _example(self, position, valid, *payload):
        def real():
            data, label = self.rows.read(*payload)
            encoded = data.dtype == tf.string
            seed = self.rows.order.image_seed(position)
            view = training_view(data, encoded, self.augment, seed, self.spec)
            return view, self.targets(label)

        return example_or_nothing(valid, real, self.spec, self.targets)

    def _finished(self, step, first, images, targets, valid):
        images = in_model_range(images, self.spec)
        if self.augment.mixes:
            seed = self.rows.order.batch_seed(step, each_host=self.augment.mix_each)
            images, targets = self.augment.batch(images, targets, seed)
        return step, first, images, targets

    def _explain(self, position, first):
        bad, payload = self.rows.bad_image(position, first, self.spec.channels, shuffled=True)
        place = tf.constant(position, "int64")
        raise_for(bad, lambda: self._example(place, tf.constant(True), *payload))
