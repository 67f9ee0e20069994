"""The classifier that every family ends in."""

import keras


def classifier(spec, x, dtype):
    """(B, D) -> (B, K), zero at first; float32 under policies that compute in 16 bits."""
    return keras.layers.Dense(
        spec.classes,
        activation=spec.classifier_activation,
        kernel_initializer="zeros",
        name="head",
        dtype=full_precision(dtype),
    )(x)


def full_precision(dtype):
    """So that softmax keeps its digits."""
    policy = keras.dtype_policies.get(dtype)
    return "float32" if policy.compute_dtype in ("float16", "bfloat16") else policy.name
