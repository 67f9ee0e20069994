"""The one way in: from a spec to the engine of the backend."""

import keras

from pipelines.distribution import launcher
from pipelines.distribution.engine import Engine
from pipelines.distribution.spec import parse


def distribute(spec=None):
    """A context in which models are built and trained on many devices.

    Build, load and compile the model, read the data with `pipelines.load(..., distribute=d)` and
    call `fit` within the block. The engines are the backend's own: `tf.distribute` on TensorFlow,
    `keras.distribution` on JAX, a process group on PyTorch. How many processes there are comes from
    the variables of the launcher: `TF_CONFIG`, `KERAS_DISTRIBUTION_*` or those of torchrun.

    The batch size is over all devices, and the same seed and batch give the same losses on one
    device and on many. Dropout and masks differ on every replica. Within the block `evaluate` and
    `predict` fill ragged batches up, with rows that count for nothing; `metrics` see sample
    weights as `weighted_metrics` do, and the loss of `evaluate` is the mean over rows by weight.

    Args:
        spec: `"off"`; `"data"`, a copy of the model on every device; `"model:BxM"`, B copies whose
            heads and MLPs are split over M devices each (JAX); `"fsdp:N"`, variables split over N
            devices (JAX); `"tpu"` or `"tpu:NAME"` (TensorFlow; untested). None is what the variable
            KERAS_VIT_DISTRIBUTE says, or `"off"`.

    Returns:
        A context manager. As the target of `with` it has `hosts`, `host`, `replicas`, `is_chief`
        and `local_batch_size(batch_size)`.

    Raises:
        ValueError: if the spec is none of these, or not one for this backend, these devices or
            these processes.

    Example:

    >>> with pipelines.distribute("data") as d:
    ...     model = keras_vit.ViT_S16(weights=None, classes=10)
    ...     train, validation = pipelines.load("photos/", model=model, batch_size=64, distribute=d)
    ...     model.compile("sgd", "sparse_categorical_crossentropy")
    ...     model.fit(train, validation_data=validation)
    """
    parsed = parse(spec)
    processes = launcher.num_processes(keras.backend.backend())
    if parsed.kind == "off":
        if processes > 1:
            raise ValueError(
                f"The launcher has started {processes} processes, and without a distribution each "
                "would train a model of its own. Received: spec='off'. Use 'data', or start one."
            )
        return Engine(parsed)
    return _engine(keras.backend.backend())(parsed, processes)


def _engine(backend):
    if backend == "tensorflow":
        from pipelines.distribution.tensorflow_engine import TensorFlowEngine

        return TensorFlowEngine
    if backend == "jax":
        from pipelines.distribution.jax_engine import JaxEngine

        return JaxEngine
    from pipelines.distribution.torch_engine import TorchEngine

    return TorchEngine
