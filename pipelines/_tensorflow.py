"""The one place that imports TensorFlow: `from pipelines._tensorflow import tf`.

Every backend needs it here, for tf.data.
"""

import warnings

# Keras first: on the PyTorch backend it imports torch, which must come before TensorFlow.
import keras

try:
    import tensorflow as tf
except ModuleNotFoundError as error:
    if error.name != "tensorflow":
        raise
    raise ImportError(
        "Reading data needs TensorFlow for tf.data, on every Keras backend. "
        'Install it with: pip install "keras3-vit[tf]"'
    ) from error

__all__ = ["tf"]


def _leave_gpus_to_the_backend() -> None:
    # TensorFlow would otherwise reserve memory on the GPUs that the backend trains on.
    backend = keras.config.backend()
    if backend == "tensorflow":
        return
    try:
        tf.config.set_visible_devices([], "GPU")
    except RuntimeError:
        warnings.warn(
            f"TensorFlow was used before `pipelines` could keep it off the GPUs, so it holds GPU "
            f"memory that {backend} may need. Import `pipelines` before running TensorFlow.",
            stacklevel=2,
        )


_leave_gpus_to_the_backend()
