"""Train under a `tf.distribute` strategy of your own: on a TPU, GPUs, or parts of the CPU.

Nothing here but `strategy.scope()` and `model.fit`: the models need no more. What Keras leaves out
under a strategy is left out here too: gradients are not clipped, since Keras would clip each
replica's share, and the model has no dropout, which would be the same on every replica.
`pipelines.distribute` mends both.

    KERAS_BACKEND=tensorflow python examples/train_tpu_strategy.py --tpu local
    KERAS_BACKEND=tensorflow python examples/train_tpu_strategy.py                # this host's GPUs
    KERAS_BACKEND=tensorflow python examples/train_tpu_strategy.py --cpu-devices 2

A TPU compiles for fixed shapes: batches to train on are whole, those to evaluate are padded.
"""

import argparse

import keras

import keras_vit
from pipelines._tensorflow import tf
from pipelines.batches import evaluation_batches, training_batches
from pipelines.distribution.padding import pad_batches
from pipelines.sources.fashion_mnist import fashion_mnist

IMAGE_SIZE = (28, 28)


def main(arguments=None):
    """Runs the example; returns the results of the evaluation."""
    options = parse(arguments)
    keras.utils.set_random_seed(0)
    strategy = make_strategy(options)
    print(f"{strategy.num_replicas_in_sync} replicas")
    with strategy.scope():  # variables that are made here are copied to every replica
        model = keras_vit.VisionTransformer(
            image_size=IMAGE_SIZE,
            patch_size=4,
            num_layers=options.layers,
            num_heads=4,
            hidden_dim=64,
            mlp_dim=128,
            channels=1,
            classes=10,
            include_preprocessing=True,
        )
        model.compile(
            keras_vit.optimizers.AdamW(2e-3, weight_decay=0.05),
            loss="sparse_categorical_crossentropy",
            weighted_metrics=["accuracy"],  # that sees the weight 0 of padding
        )
    train = [array[: options.examples] for array in fashion_mnist("train")]
    test = [array[: options.examples] for array in fashion_mnist("test")]
    batches = training_batches(*train, IMAGE_SIZE, options.batch_size, seed=0)
    model.fit(batches, epochs=options.epochs, shuffle=False)
    whole = evaluation_batches(*test, IMAGE_SIZE, options.batch_size)
    return model.evaluate(pad_batches(whole, options.batch_size), return_dict=True)


def make_strategy(options):
    """The strategy of a TPU, of all GPUs, or of so many parts of the CPU."""
    if options.tpu:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(options.tpu)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    if options.cpu_devices:
        cpu = tf.config.list_physical_devices("CPU")[0]
        parts = [tf.config.LogicalDeviceConfiguration()] * options.cpu_devices
        tf.config.set_logical_device_configuration(cpu, parts)
        return tf.distribute.MirroredStrategy(
            [device.name for device in tf.config.list_logical_devices("CPU")]
        )
    return tf.distribute.MirroredStrategy()


def parse(arguments):
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tpu", help="address of a TPU, or 'local'")
    parser.add_argument("--cpu-devices", type=int, default=0, help="parts of the CPU instead")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=256, help="over all replicas")
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--layers", type=int, default=4)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
