"""Images that cannot be decoded: found beforehand, or named when training meets one."""

import dataclasses

import numpy as np

from pipelines._tensorflow import tf
from pipelines.feed.attempts import attempt
from pipelines.images.decoding import decode, fault, tensorflow_reason
from pipelines.sources.stream import RecordStream


@dataclasses.dataclass(frozen=True)
class BadImage:
    """One image that cannot be read.

    Attributes:
        number: Integer, which of the source's.
        origin: Its path, or what else it is called.
        reason: Text that follows on the origin.
    """

    number: int
    origin: str
    reason: str

    def __str__(self):
        return f"{self.origin} {self.reason}"


def find(source, channels=3, progress=None):
    """Decodes all images of a source, in parallel, and returns those that cannot be.

    Args:
        source: A `Source` or `RecordStream`.
        channels: 3 or 1.
        progress: Function that is called with the number of images read so far, or None.

    Returns:
        List of `BadImage`.
    """
    if isinstance(source, RecordStream):
        return _find_in_sequence(source, channels, progress)
    if not source.encoded:
        return []

    def number_if_good(number):
        # Reading its size keeps the decoding from being left out.
        size = tf.size(decode(source.read(number), channels))
        return number + tf.cast(tf.minimum(size, 0), "int64")

    numbers = tf.data.Dataset.range(source.count)
    numbers = numbers.map(number_if_good, num_parallel_calls=tf.data.AUTOTUNE).ignore_errors()
    good = np.zeros(source.count, bool)
    for number in numbers.prefetch(tf.data.AUTOTUNE).as_numpy_iterator():
        good[number] = True
        if progress is not None:
            progress(number + 1)
    return [why_bad(source, int(number), channels) for number in np.flatnonzero(~good)]


def _find_in_sequence(stream, channels, progress):
    """As `find`; the reasons are found in the same pass, which gives only bad images' bytes."""

    def judged(data, label):
        # Reading its size keeps the decoding from being left out.
        good = attempt(
            lambda data: tf.size(decode(data, channels)) >= 0, lambda: tf.constant(False), data
        )
        return good, tf.where(good, "", data)

    bad = []
    for number, (good, data) in enumerate(stream.each(judged)):
        if not good:
            reason = reason_of(data, channels)
            bad.append(BadImage(number, stream.origin(number), reason))
        if progress is not None:
            progress(number + 1)
    return bad


def without_bad_images(source, channels=3):
    """A source without the images that cannot be decoded, and the list of these.

    Raises:
        ValueError: if no image can be decoded.
    """
    bad = find(source, channels)
    if len(bad) == source.count:
        raise ValueError(f"No image of {source.name} can be decoded. {first_ones(bad)}")
    good = np.setdiff1d(np.arange(source.count), [image.number for image in bad])
    return (source.take(good) if bad else source), bad


def first_ones(bad, most=5):
    """The first bad images for a message."""
    return " ".join(map(str, bad[:most])) + (
        f" And {len(bad) - most} more." if len(bad) > most else ""
    )


def why_bad(source, number, channels):
    """The `BadImage` of a number; a reason of None where it can be decoded after all."""
    origin = source.origin(number)
    try:
        data = source.read(tf.constant(number, "int64")).numpy()
    except tf.errors.OpError as error:
        return BadImage(number, origin, f"cannot be read: {tensorflow_reason(error)}")
    return BadImage(number, origin, reason_of(data, channels))


def reason_of(data, channels):
    """Why bytes cannot be decoded, or None."""
    try:
        decode(data, channels)
    except (tf.errors.OpError, ValueError) as error:
        return fault(data, error)
    return None


def summary(bad, source):
    """A line about skipped images."""
    return (
        f"Skipped {len(bad)} of {source.count} images of {source.name}, which cannot be decoded: "
        f"{first_ones(bad)}"
    )
