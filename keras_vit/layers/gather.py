"""Some of each sample's tokens, by their indices."""

from keras import ops


def gather(values, indices):
    """`(B, N, ...)` and indices `(B, n)` -> `(B, n, ...)`, the values at each sample's indices."""
    batch, number = ops.shape(values)[0], values.shape[1]
    first = ops.expand_dims(ops.arange(batch, dtype="int32") * number, 1)
    flat = ops.reshape(values, (-1, *values.shape[2:]))
    return ops.take(flat, ops.cast(indices, "int32") + first, axis=0)
