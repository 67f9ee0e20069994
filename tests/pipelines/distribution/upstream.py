"""What Keras by itself does wrong on several devices, without anything of `pipelines`.

    python upstream.py OUT

Writes {fault: True where Keras still has it, or else what it did}.
"""

import json
import os
import sys

import keras
import numpy as np

FAULTS = {}


WORKERS = "TF_CONFIG" in os.environ


def fault(backend, workers=False):
    def register(function):
        if keras.backend.backend() == backend and workers == WORKERS:
            FAULTS[function.__name__] = function
        return function

    return register


def main(out):
    found = {name: function() for name, function in FAULTS.items()}
    with open(out, "w") as file:
        json.dump(found, file)


def dense(optimizer=None, **options):
    """A compiled model of one kernel that starts at zero."""
    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((2,)), layer])
    model.compile(optimizer or keras.optimizers.SGD(0.1), "mse", **options)
    return model


def fit(model, **options):
    """Eight equal rows, in one batch."""
    x, y = np.ones((8, 2), "float32"), np.full((8, 1), 10.0, "float32")
    model.fit(x, y, **{"batch_size": 8, "verbose": 0, **options})


def raises(function):
    """True where it raises, else what came out."""
    try:
        return f"it returned {function()}"
    except Exception:
        return True


def mirrored():
    from pipelines._tensorflow import tf

    cpus = [device.name for device in tf.config.list_logical_devices("CPU")]
    return tf.distribute.MirroredStrategy(cpus)


@fault("tensorflow")
def clips_before_the_reduction():
    with mirrored().scope():
        model = dense(keras.optimizers.SGD(1.0, global_clipnorm=0.05))
        fit(model)
        norm = float(np.linalg.norm(model.get_weights()[0]))
    return norm > 0.09 or f"a step of {norm}, clipped at 0.05"


@fault("tensorflow")
def drops_the_same_units_on_every_replica():
    strategy = mirrored()
    with strategy.scope():
        layer = keras.layers.Dropout(0.5, seed=1)
        rows = strategy.run(lambda: layer(np.ones((1, 64), "float32"), training=True))
        first, second = strategy.experimental_local_results(rows)
    return bool(np.array_equal(first, second)) or "masks differ"


@fault("tensorflow")
def fails_with_steps_per_execution():
    with mirrored().scope():
        return raises(lambda: fit(dense(steps_per_execution=2), batch_size=2))


@fault("tensorflow")
def fails_with_gradient_accumulation():
    with mirrored().scope():
        optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
        return raises(lambda: fit(dense(optimizer)))


@fault("tensorflow")
def fails_with_averages_that_overwrite():
    with mirrored().scope():
        optimizer = keras.optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=2)
        return raises(lambda: fit(dense(optimizer)))


@fault("tensorflow")
def fails_with_compilation():
    with mirrored().scope():
        return raises(lambda: fit(dense(jit_compile=True)))


def fit_with_workers(prepare=lambda model, element_spec: None):
    """Under MultiWorkerMirroredStrategy, which this process makes once."""
    from pipelines._tensorflow import tf

    batch = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")
    strategy = tf.distribute.get_strategy()
    dataset = tf.data.Dataset.from_tensors(batch)
    model = dense()
    prepare(model, dataset.element_spec)
    model.fit(strategy.distribute_datasets_from_function(lambda context: dataset), verbose=0)


@fault("tensorflow", workers=True)
def fails_to_build_from_a_batch_of_several_workers():
    from pipelines.distribution.tensorflow_engine import take_local_results

    undo = take_local_results()
    result = raises(fit_with_workers)
    undo()
    return result


@fault("tensorflow", workers=True)
def fails_to_reduce_the_logs_of_a_step():
    from pipelines.distribution.tensorflow_engine import build_from_zeros

    return raises(lambda: fit_with_workers(build_from_zeros))


@fault("jax")
def fails_on_a_ragged_batch():
    with keras.distribution.DataParallel(auto_shard_dataset=False).scope():
        model = dense()
        return raises(lambda: model.predict(np.ones((3, 2), "float32"), verbose=0))


@fault("jax")
def loses_the_variables_with_it():
    with keras.distribution.DataParallel(auto_shard_dataset=False).scope():
        model = dense()
        raises(lambda: model.predict(np.ones((3, 2), "float32"), verbose=0))
        return raises(model.get_weights)


@fault("torch")
def trains_a_model_of_its_own_in_every_process():
    import torch

    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model = dense()
    x = np.ones((4, 2), "float32")
    model.fit(x, np.full((4, 1), 1.0 + rank), batch_size=4, verbose=0)
    kernels = [None, None]
    torch.distributed.all_gather_object(kernels, model.get_weights()[0].tolist())
    torch.distributed.destroy_process_group()
    return kernels[0] != kernels[1] or "kernels agree"


if __name__ == "__main__":
    if WORKERS:
        from pipelines._tensorflow import tf

        with tf.distribute.MultiWorkerMirroredStrategy().scope():
            main(*sys.argv[1:])
    else:
        if keras.backend.backend() == "tensorflow":
            import worker

            worker.split_the_cpu(2)
        main(*sys.argv[1:])
