"""How fast this machine computes a model, and how near that is to what it can do."""

import importlib.metadata
import os
import platform
import random
import statistics
import time

import keras
import numpy as np

import keras_vit
from keras_vit.applications.facts import CONSTRUCTORS
from keras_vit.layers import checks

FORWARD, TRAINING = "forward", "training"
CPU_SIDE, ACCELERATOR_SIDE = 2048, 8192  # of the matrices whose product is the ceiling
STEPS = 3  # of one `fit`


def measure(name, image_size=None, batch=8, dtype="float32", seconds=3.0, rounds=5):
    """Times forward passes and training steps of a named model, and matrix products, in turn.

    A forward pass is a `predict_on_batch`, a step one of `fit` with AdamW, of random images.

    Args:
        name: Name of a constructor.
        image_size: `(height, width)`; None is that of the constructor.
        batch: Integer.
        dtype: Name of a dtype policy.
        seconds: Float, of each of the rounds for each of the two.
        rounds: Integer; a first one, which compiles, is left out.

    Returns:
        Dictionary that can be written as JSON: `"model"`, `"backend"` and what else was set,
        `"forward"` and `"training"` with `"images_per_second"`, `"spread"` (half the range of
        the rounds over the median), `"first_call"` in seconds and `"share_of_ceiling"`, the
        `"ceiling"` in floating-point operations a second, and the peak memory in bytes of the
        process (`"memory"`) and of an accelerator (`"device_memory"`, or None).

    Raises:
        ValueError: if there is no such constructor or a number is out of its range.
    """
    checks.one_of(name, "model", CONSTRUCTORS)
    checks.positive_integer(batch, "batch")
    checks.positive_integer(rounds, "rounds")
    if checks.number(seconds, "seconds") < 0:
        raise ValueError(f"`seconds` must not be negative. Received: seconds={seconds}")
    random.seed(0)  # of Keras's seeds. `keras.utils.set_random_seed` would load TensorFlow
    shape = None if image_size is None else (*image_size, 3)
    model = getattr(keras_vit, name)(
        weights=None, input_shape=shape, classifier_activation=None, dtype=dtype
    )
    model.compile(
        keras_vit.optimizers.AdamW(1e-3, weight_decay=0.1),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    macs = keras_vit.count_macs(model).total
    tasks = {FORWARD: _forward(model, batch), TRAINING: _training(model, batch)}
    first = {task: _seconds(call) for task, (call, _) in tasks.items()}
    product, flops = _product(dtype)
    times, rates = {task: [] for task in tasks}, []
    for _ in range(rounds):
        rates.append(flops / _mean(product, seconds / 10))
        for task, (call, batches) in tasks.items():
            times[task].append(_mean(call, seconds) / batches)
    ceiling = statistics.median(rates)
    facts = {
        "model": name,
        "image_size": list(model.spec.image_size),
        "parameters": model.count_params(),
        "batch": batch,
        "dtype": dtype,
        **surroundings(),
        "ceiling": ceiling,
        "memory": _process_peak(),
        "device_memory": _device_peak(),
    }
    work = {FORWARD: 2 * macs, TRAINING: 6 * macs}  # backward is twice forward
    for task in tasks:
        rate = batch / statistics.median(times[task])
        facts[task] = {
            "images_per_second": rate,
            "spread": (max(times[task]) - min(times[task])) / 2 / statistics.median(times[task]),
            "first_call": first[task],
            "share_of_ceiling": rate * work[task] / ceiling,
        }
    return facts


def surroundings():
    """The backend, its version and the device, as a dictionary."""
    backend = keras.backend.backend()
    return {
        "backend": backend,
        "versions": {each: importlib.metadata.version(each) for each in ("keras", backend)},
        "device": _device(),
        "cores": _cores(),
    }


def _forward(model, batch):
    images = np.random.default_rng(0).random((batch, *model.input_shape[1:]), "float32")
    return lambda: model.predict_on_batch(images), 1


def _training(model, batch):
    rng = np.random.default_rng(1)
    images = rng.random((batch * STEPS, *model.input_shape[1:]), "float32")
    labels = rng.integers(0, model.output_shape[-1], batch * STEPS)
    return lambda: model.fit(images, labels, batch_size=batch, verbose=0), STEPS


def _product(dtype):
    """A function that computes a matrix product to its end, and its floating-point operations."""
    side = CPU_SIDE if _device().lower().startswith("cpu") else ACCELERATOR_SIDE
    dtype = keras.DTypePolicy(dtype).compute_dtype
    matrix = keras.ops.cast(keras.random.normal((side, side), seed=0), dtype)
    call = keras.ops.matmul
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        call = jax.jit(call)
    elif backend == "tensorflow":
        from pipelines._tensorflow import tf

        call = tf.function(call)
    last = (slice(None, 1), slice(None, 1))

    def product():
        keras.ops.convert_to_numpy(call(matrix, matrix)[last])  # waits for it

    product()
    return product, 2 * side**3


def _seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _mean(call, seconds):
    """Seconds of a call, the mean over as many as there is time for."""
    count, start = 0, time.perf_counter()
    while not count or time.perf_counter() - start < seconds:
        call()
        count += 1
    return (time.perf_counter() - start) / count


def _device():
    """Name of the first device; Keras 3.15 has no list of PyTorch's."""
    if keras.backend.backend() != "torch":
        return keras.distribution.list_devices()[0]
    import torch

    return "cuda:0" if torch.cuda.is_available() else "cpu"


def _cores():
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _process_peak():
    """Bytes of memory that this process has had at its most, or None on Windows."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if platform.system() == "Darwin" else 1024 * peak


def _device_peak():
    """Bytes that the first accelerator has had in use at its most, or None without one."""
    if _device().lower().startswith("cpu"):
        return None
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    if backend == "tensorflow":
        from pipelines._tensorflow import tf

        return tf.config.experimental.get_memory_info("GPU:0")["peak"]
    import torch

    return torch.cuda.max_memory_allocated()
