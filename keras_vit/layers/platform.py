"""Where the form of a computation depends on what it runs on; its result never does."""

import keras
from keras import ops


def jax_on_cpu():
    """Whether JAX computes on a CPU.

    There attention from plain products is faster than JAX's fused operation (1.3 times,
    forward and backward, in processor time for 50 tokens of 4 heads), which besides has no compiled
    float16 form (JAX 0.10).
    """
    return keras.backend.backend() == "jax" and keras.distribution.list_devices()[0].startswith(
        "cpu"
    )


def flattened(dense, tokens):
    """`dense(tokens)`, computed as one matrix product where that is faster.

    XLA's CPU code for `(B, N, D) @ (D, M)` is 1.6 times slower than for `(B * N, D) @ (D, M)`,
    forward and backward. On an accelerator the flattening could cost a copy.
    """
    if not jax_on_cpu():
        return dense(tokens)
    flat = dense(ops.reshape(tokens, (-1, tokens.shape[-1])))
    return ops.reshape(flat, (-1, *tokens.shape[1:-1], flat.shape[-1]))
