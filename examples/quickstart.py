"""Train a small Vision Transformer, change its resolution, fine-tune it there and look inside.

The paper's way to a good classifier in small: train at a low resolution, where an epoch is cheap,
carry the model to a higher one by resampling its position embeddings, and fine-tune
(arXiv 2010.11929, section 3.2). Here on 10,000 images of Fashion-MNIST, at 20 and then at 28
pixels, on two CPU cores.

    python examples/quickstart.py                        # or: make demo BACKEND=jax
    python examples/quickstart.py --help
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import keras
import numpy as np

import keras_vit
from pipelines.batches import evaluation_batches, training_batches
from pipelines.sources.fashion_mnist import CLASS_NAMES, fashion_mnist

LOW, HIGH = (20, 20), (28, 28)  # pixels: grids of 5x5 and 7x7 patches
BATCH_SIZE = 50
LEARNING_RATE = 2e-3  # the highest, after warm-up


def main(arguments=None):
    """Runs the example; returns the numbers that its last line prints."""
    options = parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(options.seed)
    started = time.monotonic()
    train = [array[: options.examples] for array in fashion_mnist("train")]
    test = [array[: options.examples] for array in fashion_mnist("test")]

    model = keras_vit.VisionTransformer(
        image_size=LOW,
        patch_size=4,
        num_layers=4,
        num_heads=3,
        hidden_dim=96,
        mlp_dim=192,
        channels=1,
        classes=len(CLASS_NAMES),
        include_preprocessing=True,  # pixels of 0 to 255 go in
    )
    # Saved with the model: `keras-vit predict` calls its classes by these names.
    model.spec = dataclasses.replace(model.spec, class_names=CLASS_NAMES)
    print(f"\n{model.count_params():,} parameters. Training at {LOW[0]}x{LOW[1]} pixels:")
    low_history = fit(model, train, options.epochs, options)
    results = {"accuracy_low": accuracy(model, test)}

    larger = keras_vit.resize(model, image_size=HIGH)
    results["accuracy_resampled"] = accuracy(larger, test)
    results["accuracy_fresh_positions"] = accuracy(with_fresh_positions(larger), test)
    print(f"\nFine-tuning at {HIGH[0]}x{HIGH[1]} pixels:")
    high_history = fit(larger, train, options.finetune_epochs, options)
    results["accuracy_high"] = accuracy(larger, test)

    path = options.out / "fashion_mnist.keras"
    larger.save(path)
    results["reload_difference"] = reload_difference(larger, path, test[0][:256])
    draw(larger, low_history, high_history, test[0], options.out)
    results["seconds"] = round(time.monotonic() - started, 1)
    report(results, options.out)
    return results


def fit(model, train, epochs, options):
    """Trains with warm-up, cosine decay and weight decay on the kernels; returns the history."""
    steps = epochs * (len(train[0]) // BATCH_SIZE)
    warmup = steps // 10
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps - warmup, warmup_target=LEARNING_RATE, warmup_steps=warmup
    )
    model.compile(
        keras_vit.optimizers.AdamW(schedule, weight_decay=0.2, global_clipnorm=1.0),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    # Flips only: in so few steps the model is still learning its images, not overfitting them.
    batches = training_batches(
        *train, model.spec.image_size, BATCH_SIZE, seed=options.seed, smallest_crop=1.0
    )
    return model.fit(batches, epochs=epochs, shuffle=False).history  # it is shuffled already


def accuracy(model, test):
    """The share of test images that the model gets right."""
    batches = evaluation_batches(*test, model.spec.image_size, 500)
    labels = np.argmax(model.predict(batches, verbose=0), axis=-1)
    return round(float(np.mean(labels == test[1])), 4)


def with_fresh_positions(model):
    """The same model with new random positions, to show what resampling them is worth."""
    fresh = keras_vit.resize(model, image_size=model.spec.image_size)
    table = fresh.get_layer("position_embedding").table
    table.assign(keras.random.normal(table.shape, stddev=0.02, seed=0))
    return fresh


def reload_difference(model, path, images):
    """The largest change of a probability after the file was loaded in a new process."""
    program = (
        "import sys, numpy as np, keras, keras_vit\n"
        "model = keras.saving.load_model(sys.argv[1])\n"
        "images = np.load(sys.argv[2])\n"
        "np.save(sys.argv[2], model.predict(images, verbose=0))\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        exchange = pathlib.Path(folder) / "images.npy"
        np.save(exchange, images)
        subprocess.run([sys.executable, "-c", program, str(path), str(exchange)], check=True)
        reloaded = np.load(exchange)
    difference = float(np.abs(reloaded - model.predict(images, verbose=0)).max())
    if difference > 1e-5:
        raise RuntimeError(f"The reloaded model predicts something else: {difference}")
    return difference


def draw(model, low_history, high_history, images, folder):
    """Writes the pictures: learning curves, positions, rollout."""
    from matplotlib import pyplot

    pyplot.switch_backend("agg")  # pictures go to files; no window is needed
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    boundary = len(low_history["loss"])
    for axis, name in zip(axes, ("loss", "accuracy"), strict=True):
        values = low_history[name] + high_history[name]
        axis.plot(range(1, len(values) + 1), values, marker=".")
        axis.axvline(boundary + 0.5, color="grey", linestyle=":", label="change of resolution")
        axis.set(xlabel="epoch", title=f"training {name}")
        axis.legend()
    figures = {
        "learning_curves.png": figure,
        "position_similarity.png": keras_vit.analysis.plot_position_similarity(model),
        "attention_rollout.png": keras_vit.analysis.plot_attention_rollout(model, images[:16]),
    }
    for name, figure in figures.items():
        figure.savefig(folder / name, dpi=120)
        pyplot.close(figure)


def report(results, folder):
    """Says what came out and where it lies; the last line is JSON."""
    print(
        f"""
Accuracy on the test images:
  trained at {LOW[0]}x{LOW[1]}                                      {results["accuracy_low"]:.2%}
  straight after the change to {HIGH[0]}x{HIGH[1]}, positions
    resampled                                         {results["accuracy_resampled"]:.2%}
    fresh                                             {results["accuracy_fresh_positions"]:.2%}
  fine-tuned at {HIGH[0]}x{HIGH[1]}                                   {results["accuracy_high"]:.2%}
The model was saved, and predicts the same when it is loaded in a new process.
In {folder.resolve()}:
  {", ".join(sorted(path.name for path in folder.iterdir()))}"""
    )
    print(json.dumps({"backend": keras.backend.backend(), **results}))


def parse(arguments):
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--epochs", type=int, default=5, help="epochs at the low resolution")
    parser.add_argument("--finetune-epochs", type=int, default=12, help="epochs at the high one")
    parser.add_argument("--examples", type=int, default=10_000, help="images of each split to use")
    parser.add_argument("--seed", type=int, default=0, help="of weights, order and flips")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("demo"), help="folder")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
