"""Train on a mesh of devices with `keras.distribution` of your own: each layer split over some.

Nothing here but Keras's public distribution API and `keras_vit.layout_map`, which says what of the
model is split. A mesh of 2 x 4 trains two copies of the model, each over four devices.

    KERAS_BACKEND=jax python examples/train_jax_mesh.py --batch-devices 2 --model-devices 4
    XLA_FLAGS=--xla_force_host_platform_device_count=4 KERAS_BACKEND=jax \\
        python examples/train_jax_mesh.py --batch-devices 2 --model-devices 2

With `--model-devices 0` the mesh has the batch's axis alone, and the variables are split over all
devices (fully sharded data parallelism).
"""

import argparse

import jax
import keras

import keras_vit
from pipelines.batches import training_batches
from pipelines.sources.fashion_mnist import fashion_mnist

IMAGE_SIZE = (28, 28)


def main(arguments=None):
    """Runs the example; returns the history of the training and where one kernel lies."""
    options = parse(arguments)
    keras.utils.set_random_seed(0)
    shape, names = (options.batch_devices,), ["batch"]
    if options.model_devices:
        shape, names = (*shape, options.model_devices), [*names, "model"]
    mesh = keras.distribution.DeviceMesh(shape, names)

    # The map needs the sizes of the variables before they are made: this model lies on the host.
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        sizes = build(options)
    distribution = keras.distribution.ModelParallel(
        layout_map=keras_vit.layout_map(sizes, mesh),
        batch_dim_name="batch",
        auto_shard_dataset=False,
    )
    with distribution.scope():
        model = build(options)
        model.compile(
            keras_vit.optimizers.AdamW(2e-3, weight_decay=0.05, global_clipnorm=1.0),
            loss="sparse_categorical_crossentropy",
            metrics=["accuracy"],
        )
        train = [array[: options.examples] for array in fashion_mnist("train")]
        batches = training_batches(*train, IMAGE_SIZE, options.batch_size, seed=0)
        history = model.fit(batches, epochs=options.epochs, shuffle=False).history
    kernel = model.get_layer("block_0").mlp.hidden.kernel
    part = kernel.value.sharding.shard_shape(kernel.shape)
    print(f"{kernel.path} {tuple(kernel.shape)}: {part} on each device")
    return history, part


def build(options):
    """The model: what is split must divide, here 4 heads and a width of 128."""
    return keras_vit.VisionTransformer(
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


def parse(arguments):
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--batch-devices", type=int, default=1, help="shares of the batch")
    parser.add_argument("--model-devices", type=int, default=1, help="parts of each layer, or 0")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=256, help="over all devices")
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--layers", type=int, default=4)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
