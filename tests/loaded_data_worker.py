"""One process that evaluates and trains on loaded data on several devices.

python loaded_data_worker.py OUT
"""

import json
import sys

import keras
import numpy as np
from image_files import model_of

import pipelines
from pipelines._tensorflow import tf
from pipelines.sources.arrays import arrays

BATCH, SIZES = 8, (1, 7, 8, 9, 16)
SPEC = model_of(2, image_size=(3, 4), include_preprocessing=False)


def main(out):
    if keras.backend.backend() == "tensorflow":
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
    with pipelines.distribute("data") as d:
        results = {"replicas": d.replicas, "host": d.host}
        for size in SIZES:
            results[str(size)] = evaluated(size, d)
        results["weights"] = trained(d)
    with open(out, "w") as file:
        json.dump(results, file)


def source(count):
    rng = np.random.default_rng(count)
    images = rng.integers(0, 256, (count, 3, 4, 3), "uint8")
    return arrays(images, rng.integers(0, 2, count), ("a", "b"))


def weights():
    return np.random.default_rng(2).normal(size=(36, 2)).astype("float32")


def linear_model():
    inputs = keras.Input((3, 4, 3))
    dense = keras.layers.Dense(2, use_bias=False)
    model = keras.Model(inputs, dense(keras.layers.Flatten()(inputs)))
    dense.kernel.assign(weights())
    model.compile(keras.optimizers.SGD(0.01), "mse", weighted_metrics=["mae", "accuracy"])
    return model


def load(train, d, **arguments):
    return pipelines.load(
        train, model=SPEC, batch_size=BATCH, one_hot=True, distribute=d, **arguments
    )


def evaluated(size, d):
    _, data = load(source(16), d, validation=source(size))
    logs = linear_model().evaluate(data, return_dict=True, verbose=0)
    return [float(logs["mae"]), float(logs["accuracy"])]


def trained(d):
    model = linear_model()
    train, _ = load(source(20), d, augment="none", validation=False, repeat=True)
    model.fit(train, steps_per_epoch=2, epochs=2, verbose=0)
    return keras.ops.convert_to_numpy(model.trainable_variables[0]).tolist()


if __name__ == "__main__":
    main(sys.argv[1])
