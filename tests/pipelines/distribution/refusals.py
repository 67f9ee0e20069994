"""Tries what cannot work on several devices, and writes what was said: {attempt: message}.

python refusals.py OUT
"""

import json
import sys

import keras
import numpy as np
import worker

import pipelines
from pipelines._tensorflow import tf

BACKEND = keras.backend.backend()
ATTEMPTS = {}


def attempt(function):
    ATTEMPTS[function.__name__] = function
    return function


def main(out):
    if BACKEND == "tensorflow":
        worker.split_the_cpu(2)
    outside = worker.build()
    worker.compile(outside)
    said = {}
    with pipelines.distribute("data") as d:
        model = worker.build()
        for name, function in ATTEMPTS.items():
            said[name] = message(lambda: function(d, model, outside))  # noqa: B023
        after = worker.build()
        worker.compile(after)
        after.fit(*worker.images(16, 1), batch_size=16, verbose=0)
        said["trains after all that"] = None
        said["config"] = json.dumps(after.get_compile_config())
    if BACKEND == "jax":
        with pipelines.distribute("model:1x4"):
            said["heads"] = message(worker.build)  # two
    for spec in ("model:1x2", "fsdp:2", "tpu", "model:3x1", "fsdp:7"):
        said[spec] = message(lambda: pipelines.distribute(spec).__enter__())  # noqa: B023
    if BACKEND != "jax":
        keras.distribution.set_distribution(keras.distribution.DataParallel(devices=["cpu:0"]))
        said["keras.distribution"] = message(lambda: pipelines.distribute("data").__enter__())
    with open(out, "w") as file:
        json.dump(said, file)


def message(function):
    try:
        function()
    except ValueError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def compiled(model, optimizer=None, **options):
    model.compile(optimizer or keras.optimizers.SGD(0.1), "mse", **options)
    return model


def fit(model, rows=16, batch_size=16):
    pixels = np.zeros((rows, 8, 12, 3), "float32")
    model.fit(pixels, np.zeros((rows, 5), "float32"), batch_size=batch_size, verbose=0)


@attempt
def batch_size(d, model, outside):
    d.local_batch_size(10 if d.replicas == 4 else 9)


@attempt
def batch_in_fit(d, model, outside):
    fit(compiled(model), 9, 9)


@attempt
def last_batch(d, model, outside):
    fit(compiled(model), 25, 16)


@attempt
def unknown_batches(d, model, outside):
    pixels, labels = worker.images(16, 1)
    compiled(model).fit(tf.data.Dataset.from_tensor_slices((pixels, labels)).batch(16), verbose=0)


@attempt
def batches_of_nine(d, model, outside):
    pixels, labels = worker.images(18, 1)
    data = tf.data.Dataset.from_tensor_slices((pixels, labels)).batch(9, drop_remainder=True)
    compiled(model).fit(data, verbose=0)


@attempt
def built_outside(d, model, outside):
    outside.fit(*worker.images(16, 1), batch_size=16, verbose=0)


@attempt
def unseeded(d, model, outside):
    inputs = keras.Input((8, 12, 3))
    outputs = keras.layers.Dense(5)(keras.layers.Dropout(0.5)(keras.layers.Flatten()(inputs)))
    fit(compiled(keras.Model(inputs, outputs)))


@attempt
def validation_split(d, model, outside):
    compiled(model).fit(*worker.images(16, 1), validation_split=0.5, verbose=0)


@attempt
def steps_per_execution(d, model, outside):
    fit(compiled(model, steps_per_execution=4))


@attempt
def gradient_accumulation(d, model, outside):
    fit(compiled(model, keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)))


@attempt
def ema_overwrite(d, model, outside):
    optimizer = keras.optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=2)
    fit(compiled(model, optimizer))


@attempt
def jit_compile(d, model, outside):
    fit(compiled(model, jit_compile=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
