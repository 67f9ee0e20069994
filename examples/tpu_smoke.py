"""The one script to run first on a real TPU or GPU: does it compile, train and agree with a CPU?

    KERAS_BACKEND=jax python examples/tpu_smoke.py            # about two minutes
    KERAS_BACKEND=jax python examples/tpu_smoke.py --cpu      # tiny, to try the script itself

It takes every local device as one data-parallel mesh, trains ViT-B/16 in bfloat16 for some steps,
and checks that the loss is finite and falls, that logits agree with those of this host's CPU, that
a ragged batch is evaluated whole, and that a saved model predicts the same. It prints images a
second and the memory that the first device used. docs/scaling.md says when it last ran on what.
"""

import argparse
import pathlib
import tempfile
import time

import keras
import numpy as np

import keras_vit
import pipelines

TINY = {"image_size": 32, "patch_size": 8, "num_layers": 2, "num_heads": 2, "hidden_dim": 32}


def main(arguments=None):
    """Runs all checks; returns what it measured. A check that fails raises."""
    options = parse(arguments)
    import jax

    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy("mixed_bfloat16")
    print("devices:", ", ".join(str(device) for device in jax.devices()))
    with pipelines.distribute("data") as d:
        model = build(options)
        batch_size = options.batch_size * d.replicas
        images, labels = random_examples(model, batch_size)
        model.compile(
            keras_vit.optimizers.AdamW(1e-4, global_clipnorm=1.0),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        losses, rate = timed_training(model, images, labels, batch_size, options.steps)
        evaluated = model.evaluate(images[:-1], labels[:-1], batch_size, return_dict=True)
        logits = model.predict(images[:3], verbose=0)
        difference = reloaded_difference(model, images[:3], logits)
    check(np.isfinite(losses).all() and losses[-1] < losses[0], f"the loss falls: {losses}")
    check(np.isfinite(evaluated["loss"]), f"a ragged batch is evaluated: {evaluated}")
    check(difference < 0.05, f"a saved model predicts the same on the CPU: within {difference:.2g}")
    memory = (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)
    print(f"{rate:,.0f} images a second, {memory / 2**30:.2f} GiB at most on the first device")
    return {"losses": losses, "images_per_second": rate, "peak_bytes": memory}


def build(options):
    """ViT-B/16, or a tiny model."""
    if options.cpu:
        return keras_vit.VisionTransformer(
            **TINY, mlp_dim=64, classes=10, classifier_activation=None
        )
    return keras_vit.ViT_B16(weights=None, classes=1000, classifier_activation=None)


def random_examples(model, count):
    """Images and labels that can be learnt by heart."""
    generator = np.random.default_rng(0)
    images = generator.uniform(-1, 1, (count, *model.input_shape[1:])).astype("float32")
    return images, generator.integers(0, model.output_shape[-1], count).astype("int32")


def timed_training(model, images, labels, batch_size, steps):
    """(losses by step, images a second without the first step, which compiles)."""
    options = {"batch_size": batch_size, "shuffle": False, "verbose": 0}
    losses = model.fit(images, labels, **options).history["loss"]
    started = time.perf_counter()
    losses += model.fit(images, labels, epochs=steps, **options).history["loss"]
    return losses, steps * len(images) / (time.perf_counter() - started)


def reloaded_difference(model, images, logits):
    """The largest change of a logit, relative to the largest, on the CPU after saving."""
    import jax

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.keras"
        model.save(path)
        keras.distribution.set_distribution(None)
        with jax.default_device(jax.local_devices(backend="cpu")[0]):
            again = keras.saving.load_model(path, compile=False)
            predicted = keras.ops.convert_to_numpy(again(images, training=False))
    return float(np.abs(predicted - logits).max() / np.abs(logits).max())


def check(passed, sentence):
    """Prints what was checked."""
    print("ok  " if passed else "FAILED  ", sentence)
    if not passed:
        raise SystemExit(1)


def parse(arguments):
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--cpu", action="store_true", help="a tiny model, to try the script")
    parser.add_argument("--batch-size", type=int, default=32, help="images on each device")
    parser.add_argument("--steps", type=int, default=20)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
