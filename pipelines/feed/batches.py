"""Rows to batches, in order, and an error that names the image where one is missing."""

import functools

from pipelines._tensorflow import tf
from pipelines.feed.attempts import attempt
from pipelines.feed.random_access import NOWHERE

# For what builds data sets: without AutoGraph, which nothing here needs, they are built faster.
without_autograph = tf.autograph.experimental.do_not_convert


def batched(rows, example, order, explain, rows_can_fail):
    """Makes examples of rows in parallel and batches them.

    An example that fails is noticed when its batch comes without it: then `explain` is called,
    which knows what the failure itself does not, the image's name.

    Args:
        rows: `tf.data.Dataset` of rows, as of `pipelines.feed.random_access`; behind the last whole
            batch come rows that stand nowhere, so that one missing in it shows too.
        example: Function of a row's `(position, valid, ...)` to `(image, target)`.
        order: An `Order`.
        explain: Function of the position that is missing and the first step, integers, that raises
            an error.
        rows_can_fail: Whether rows come from files, whose errors are not to be ignored.

    Returns:
        `tf.data.Dataset` of `(step, first step, images, targets, valid)`.
    """

    def of_row(position, first, valid, *payload):
        return (position, first, *example(position, valid, *payload), valid)

    def missing(positions, wanted, first):
        explain(next(int(place) for place in wanted if place not in positions), int(first))

    def check(expected, batch):
        positions, firsts, images, targets, valid = batch
        step = tf.where(expected < 0, firsts[0], expected)
        wanted = order.positions(step)
        step = tf.cond(
            tf.reduce_all(tf.equal(positions, wanted)),
            lambda: step,
            lambda: tf.numpy_function(missing, [positions, wanted, firsts[0]], tf.int64),
        )
        step = tf.ensure_shape(step, ())
        return step + 1, (step, firsts[0], images, targets, valid)

    if rows_can_fail:

        def one(position, first, valid, *payload):
            place, no = tf.fill((), tf.cast(NOWHERE, "int64")), tf.constant(False)
            nowhere = functools.partial(of_row, place, first, no, *payload)
            return attempt(of_row, nowhere, position, first, valid, *payload)

        examples = rows.map(one, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    else:
        examples = rows.map(of_row, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        examples = examples.ignore_errors()
    batches = examples.batch(order.local_batch_size, drop_remainder=True)
    return batches.scan(tf.constant(-1, "int64"), check)


def example_or_nothing(valid, real, spec, targets):
    """`real()`, or a black image and an empty target where the row is not valid."""
    shape = (*spec.image_size, spec.channels)
    return tf.cond(valid, real, lambda: (tf.zeros(shape, "uint8"), targets.nothing()))


def raise_for(bad, example):
    """Raises the error of a bad image; that of `example()` where the image is not to blame."""
    if bad.reason is not None:
        raise ValueError(str(bad))
    try:
        example()
    except Exception as error:  # whatever it is, it is passed on with the image's name
        message = str(getattr(error, "message", error))
        raise ValueError(f"{bad.origin} can be decoded, but then: {message}") from error
    raise RuntimeError(f"{bad.origin} failed once and then did not.")
