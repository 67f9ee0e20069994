"""One process of a distributed run. It prints nothing and leaves its numbers in a file.

    python worker.py SPEC OUT

The run is the same on every backend and engine: given weights, given images, SGD with momentum and
a global clip that always acts. Devices and the other processes come from the environment.
"""

import os
import sys
import zlib

import keras
import numpy as np

import keras_vit
import pipelines
from pipelines._tensorflow import tf
from pipelines.distribution.padding import pad_batches

BATCH, STEPS, EPOCHS, CLASSES = 16, 4, 3, 5
RAGGED = 10  # examples to evaluate, in batches of 4
OTHERS = ((8, 4), (7, 4), (8, 3), (1, 4))  # more of (examples, batch size)


def main(spec, out):
    if keras.backend.backend() == "tensorflow" and spec == "data" and "TF_CONFIG" not in os.environ:
        split_the_cpu(2)
    with pipelines.distribute(spec) as d:
        model = build()
        assign(model)
        compile(model)
        results = {
            **trained(model, d),
            **evaluated(model, d),
            **(placement(model) if keras.backend.backend() == "jax" else {}),
            "masks": masks(d),
            "facts": [d.hosts, d.host, d.replicas, d.is_chief, d.local_batch_size(BATCH)],
            **weights(model, d),
        }
    np.savez(out, **results)


def trained(model, d):
    history = model.fit(
        training_data(d),
        epochs=EPOCHS,
        steps_per_epoch=STEPS,
        validation_data=evaluation_data(d),
        shuffle=False,
        verbose=0,
    ).history
    return {f"history/{name}": values for name, values in history.items()}


def evaluated(model, d):
    """Of batches of four, of which two of the ten examples are left over."""
    data = evaluation_data(d)
    if d.hosts > 1:
        logs = model.evaluate(data, return_dict=True, verbose=0)
    else:
        logs = model.evaluate(*data, batch_size=4, return_dict=True, verbose=0)
    results = {f"evaluate/{name}": value for name, value in logs.items()}
    if d.hosts == 1 or keras.backend.backend() == "torch":
        results["predictions"] = model.predict(images(RAGGED, 2)[0], batch_size=4, verbose=0)
    if d.hosts == 1:
        for count, batch_size in OTHERS:
            some = [array[:count] for array in data]
            logs = model.evaluate(*some, batch_size=batch_size, return_dict=True, verbose=0)
            predictions = model.predict(some[0], batch_size=batch_size, verbose=0)
            name = f"{count}/{batch_size}"
            results.update({f"loss/{name}": logs["loss"], f"accuracy/{name}": logs["accuracy"]})
            results[f"predictions/{name}"] = predictions
    return results


def split_the_cpu(count):
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * count
    )


def build():
    return keras_vit.VisionTransformer(
        image_size=(8, 12),
        patch_size=4,
        num_layers=2,
        num_heads=2,
        hidden_dim=64,
        mlp_dim=128,
        classes=CLASSES,
        classifier_activation=None,
    )


def assign(model):
    for variable in model.weights:
        generator = np.random.default_rng(zlib.crc32(variable.path.encode()))
        mean = 1.0 if variable.path.endswith("gamma") else 0.0
        variable.assign(mean + 0.1 * generator.normal(size=tuple(variable.shape)))


def compile(model):
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.5),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )


def images(count, seed):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, CLASSES, count)
    pixels = generator.normal(size=(count, 8, 12, 3)) + 0.5 * labels[:, None, None, None]
    return pixels.astype("float32"), labels.astype("int32")


def training_data(d):
    """This host's share of every batch, over and over."""
    pixels, labels = images(BATCH * STEPS, 1)
    rows = d.local_batch_size(BATCH)
    pixels = pixels.reshape(STEPS, d.hosts, rows, 8, 12, 3)[:, d.host]
    labels = labels.reshape(STEPS, d.hosts, rows)[:, d.host]
    return tf.data.Dataset.from_tensor_slices((pixels, labels)).repeat()


def evaluation_data(d):
    """Ten examples, of which batches of four leave two over."""
    pixels, labels = images(RAGGED, 2)
    if d.hosts == 1:
        return pixels, labels
    share = tf.data.Dataset.from_tensor_slices((pixels, labels)).shard(d.hosts, d.host)
    return pad_batches(share.batch(4), rows=4)


def masks(d):
    """What dropout lets through, by row of a batch of 8 over all replicas; this host's rows."""
    layer = keras.layers.Dropout(0.5, seed=3)
    if keras.backend.backend() == "tensorflow" and d.spec.kind != "off":
        ones = tf.ones((8 // d.replicas, 32))
        rows = d.strategy.run(lambda: layer(ones, training=True))
        return np.concatenate(
            [part.numpy() for part in d.strategy.experimental_local_results(rows)]
        )
    return value(layer(np.ones((8 // d.hosts, 32), "float32"), training=True))


def weights(model, d):
    values = d.fetch(model.weights)
    return {f"weight/{v.path}": x for v, x in zip(model.weights, values, strict=True)}


def placement(model):
    """For each variable and its momentum: how many devices hold it, and the shape each has."""
    slots = {
        "slot/" + variable.path: slot
        for variable, slot in zip(model.trainable_variables, model.optimizer.momentums, strict=True)
    }
    variables = {variable.path: variable for variable in model.weights} | slots
    return {
        f"place/{path}": [len(v.value.sharding.device_set), *v.value.sharding.shard_shape(v.shape)]
        for path, v in variables.items()
        if hasattr(v.value, "sharding")
    }


def value(variable):
    return keras.ops.convert_to_numpy(variable)


if __name__ == "__main__":
    main(*sys.argv[1:])
