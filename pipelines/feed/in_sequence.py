"""Rows of batches from a stream of records: bytes and labels, read one after the other.

A row is `(position, first step, valid, number, data, label)`; the number is the record's in the
stream. What is not needed is skipped encoded.
"""

import dataclasses

from pipelines._tensorflow import tf
from pipelines.feed import bad_images
from pipelines.feed.random_access import NOWHERE

BUFFER_BYTES = 2**30  # of encoded records that the shuffle holds


@dataclasses.dataclass(frozen=True, eq=False)
class InSequence:
    """Rows of a `RecordStream`, in an `Order`."""

    source: object
    order: object

    can_fail = True  # the files may be damaged

    def training_rows(self, firsts, steps):
        """As of `RandomAccess`; the records are shuffled by a buffer, anew in every epoch."""
        return firsts.flat_map(lambda first: self._end(self._pass(first, steps), first))

    def evaluation_rows(self, steps):
        """As of `RandomAccess`."""
        zero = tf.constant(0, "int64")
        rows = self._of_host(self._numbered().take(self.source.count).enumerate())
        rows = rows.map(lambda position, record: (position, zero, True, *record))
        padding = tf.data.Dataset.range(self.source.count, steps * self.order.batch_size)
        padding = self._of_host(tf.data.Dataset.zip(padding, padding))
        nothing = self._nothing()
        padding = padding.map(lambda position, _: (position, zero, False, *nothing))
        return self._end(rows.concatenate(padding), zero)

    def read(self, number, data, label):
        """`(data, label)` of a row."""
        return data, self.source.checked(label)

    def bad_image(self, position, first, channels, shuffled):
        """`(bad image, payload)` of the row at a position, for which the stream is read again."""
        if shuffled:
            steps = position // self.order.batch_size - first + 1
            rows = self._pass(tf.constant(first, "int64"), steps)
        else:
            rows = self.evaluation_rows(1)
        payload = next((row[3:] for row in rows if int(row[0]) == position), None)
        if payload is None:
            raise ValueError(f"{self.source.name} ends before its {self.source.count} images.")
        number, data = int(payload[0]), payload[1].numpy()
        reason = bad_images.reason_of(data, channels)
        return bad_images.BadImage(number, self.source.origin(number), reason), payload

    def _pass(self, first, steps):
        epoch_rows = self.order.steps_per_epoch * self.order.batch_size
        buffer = self._buffer()

        def epoch(number):
            # Of this graph alone. TensorFlow mixes the user's global seed into the shuffle, where
            # it would change the order, and cannot compare one of 0 with the tensor `seed`.
            tf.random.set_seed(1)
            seed = self.order.epoch_seed(number)
            records = self._numbered().shuffle(buffer, seed, reshuffle_each_iteration=False)
            return self._of_host(records.take(epoch_rows).enumerate(number * epoch_rows))

        start, local = first // self.order.steps_per_epoch, self.order.local_batch_size
        rows = tf.data.Dataset.range(start, 2**40).flat_map(epoch)
        rows = rows.skip((first - start * self.order.steps_per_epoch) * local).take(steps * local)
        return rows.map(lambda position, record: (position, first, True, *record))

    def _of_host(self, rows):
        if self.order.hosts == 1:
            return rows
        size, local = self.order.batch_size, self.order.local_batch_size
        return rows.filter(lambda position, _: position % size // local == self.order.host)

    def _buffer(self):
        size = max(self.source.size // self.source.count, 1)
        return min(max(BUFFER_BYTES // size, 1), self.source.count)

    def _numbered(self):
        records = self.source.records().enumerate()
        return records.map(lambda number, record: (number, *record))

    def _nothing(self):
        return [tf.zeros(spec.shape, spec.dtype) for spec in self._numbered().element_spec]

    def _end(self, rows, first):
        """The rows and, behind them, a batch of rows that stand nowhere."""
        row = (tf.constant(NOWHERE, "int64"), first, False, *self._nothing())
        end = tf.data.Dataset.from_tensors(row).repeat(self.order.local_batch_size)
        return rows.concatenate(end)
