"""Batches to evaluate on: every image once and in order, and nothing counted twice."""

import dataclasses

from pipelines._tensorflow import tf
from pipelines.feed.batches import batched, example_or_nothing, raise_for, without_autograph
from pipelines.feed.views import in_model_range, plain_view


@dataclasses.dataclass(frozen=True, eq=False)
class EvaluationData:
    """What evaluation batches are made of.

    Attributes:
        rows: A `RandomAccess` or an `InSequence`, whose order has as many rows as all batches.
        targets: A `Targets`.
        spec: The model's.
    """

    rows: object
    targets: object
    spec: object

    @without_autograph
    def batches(self):
        """All images, in batches of one size, for `evaluate`.

        Returns:
            `tf.data.Dataset` of `(images, targets, mask)`: the mask, float32, is 0 for the rows
            that fill the last batch up, and stands where Keras takes sample weights.
        """
        steps = self.rows.order.steps_per_epoch
        rows = self.rows.evaluation_rows(steps)
        batches = batched(
            rows, self._example, self.rows.order, self._explain, self.rows.can_fail
        ).take(steps)
        batches = batches.map(self._finished, num_parallel_calls=tf.data.AUTOTUNE)
        batches = batches.prefetch(tf.data.AUTOTUNE)
        return batches.apply(tf.data.experimental.assert_cardinality(steps))

    def _example(self, position, valid, *payload):
        def real():
            data, label = self.rows.read(*payload)
            return plain_view(data, data.dtype == tf.string, self.spec), self.targets(label)

        return example_or_nothing(valid, real, self.spec, self.targets)

    def _finished(self, step, first, images, targets, valid):
        return in_model_range(images, self.spec), targets, tf.cast(valid, "float32")

    def _explain(self, position, first):
        bad, payload = self.rows.bad_image(position, first, self.spec.channels, shuffled=False)
        place = tf.constant(position, "int64")
        raise_for(bad, lambda: self._example(place, tf.constant(True), *payload))
