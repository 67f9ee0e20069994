"""Train a Vision Transformer, a hybrid and a ResNet of the same compute, and compare them.

The question of the paper's figure 5, in small: what does each family make of the same
multiply-adds? Here on 10,000 images of Fashion-MNIST, where so little data favours convolutions,
as it does in the paper.

    python examples/compare_families.py
    python examples/compare_families.py --epochs 2 --examples 2000
"""

import argparse
import dataclasses
import json
import pathlib
import time

import keras
import numpy as np

import keras_vit
from pipelines.batches import evaluation_batches, training_batches
from pipelines.sources.fashion_mnist import CLASS_NAMES, fashion_mnist

IMAGE_SIZE = (28, 28)  # pixels
BATCH_SIZE = 50
COMMON = {"channels": 1, "classes": len(CLASS_NAMES), "include_preprocessing": True}


@dataclasses.dataclass
class Outcome:
    """What is known of one trained model."""

    family: str
    parameters: int
    macs: int  # multiply-adds for one image
    accuracies: list  # on the test images, after every epoch
    images_per_second: float  # forward


def vision_transformer():
    """Patches of 4 x 4 pixels, 7 x 7 of them, through four encoder blocks."""
    return keras_vit.VisionTransformer(
        IMAGE_SIZE, 4, num_layers=4, num_heads=3, hidden_dim=96, mlp_dim=192, **COMMON
    )


def hybrid():
    """A narrow ResNet makes the same grid of 7 x 7, and three encoder blocks follow."""
    stem = {"resnet": (3,), "resnet_width": 0.5}
    return keras_vit.VisionTransformer(
        IMAGE_SIZE, 1, num_layers=3, num_heads=3, hidden_dim=96, mlp_dim=192, **stem, **COMMON
    )


def resnet():
    """Three stages, on maps of 7 x 7, 4 x 4 and 2 x 2."""
    return keras_vit.BiTResNet(IMAGE_SIZE, num_layers=(6, 6, 2), width=0.5, **COMMON)


FAMILIES = {"ViT": vision_transformer, "hybrid": hybrid, "ResNet (BiT)": resnet}


def main(arguments=None):
    """Runs the example; returns an `Outcome` of each family."""
    options = parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    train = [array[: options.examples] for array in fashion_mnist("train")]
    test = [array[: options.examples] for array in fashion_mnist("test")]
    outcomes = []
    for family, build in FAMILIES.items():
        print(f"\n{family}:", flush=True)
        keras.utils.set_random_seed(options.seed)
        outcomes.append(train_one(family, build(), train, test, options))
    draw(outcomes, len(train[0]), options.out / "compare_families.png")
    report(outcomes, options)
    return outcomes


def train_one(family, model, train, test, options):
    """Trains one model by the recipe that all share, and measures it."""
    steps = options.epochs * (len(train[0]) // BATCH_SIZE)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps - steps // 10, warmup_target=options.learning_rate, warmup_steps=steps // 10
    )
    model.compile(
        keras_vit.optimizers.AdamW(schedule, weight_decay=0.05, global_clipnorm=1.0),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    history = model.fit(
        training_batches(*train, IMAGE_SIZE, BATCH_SIZE, seed=options.seed, smallest_crop=1.0),
        epochs=options.epochs,
        shuffle=False,  # it is shuffled already
        validation_data=evaluation_batches(*test, IMAGE_SIZE, 500),
    ).history
    return Outcome(
        family,
        model.count_params(),
        keras_vit.count_macs(model).total,
        history["val_accuracy"],
        speed(model, test[0]),
    )


def speed(model, images, passes=3):
    """Images per second of `predict`, the median of several passes over the images."""
    seconds = []
    for _ in range(passes + 1):  # the first one compiles
        started = time.perf_counter()
        model.predict(images, batch_size=500, verbose=0)
        seconds.append(time.perf_counter() - started)
    return len(images) / float(np.median(seconds[1:]))


def draw(outcomes, examples, path):
    """Test accuracy against the multiply-adds spent in training, as in the paper's figure 5."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 4), layout="constrained")
    axis = figure.add_subplot()
    for outcome in outcomes:
        epochs = np.arange(1, len(outcome.accuracies) + 1)
        # Backward costs twice the forward pass.
        axis.plot(3e-12 * outcome.macs * examples * epochs, outcome.accuracies, ".-")
    axis.legend([outcome.family for outcome in outcomes])
    axis.set(xlabel="multiply-adds spent in training, in millions of millions", ylabel="accuracy")
    figure.savefig(path, dpi=120)


def report(outcomes, options):
    """Prints the table; the last line is JSON."""
    print(
        f"\n{options.epochs} epochs of {options.examples:,} images, accuracy on the test images:\n"
    )
    print("| family | parameters | million multiply-adds | accuracy | images/s, forward |")
    print("|---|---|---|---|---|")
    for outcome in outcomes:
        print(
            f"| {outcome.family} | {outcome.parameters:,} | {outcome.macs / 1e6:.1f} "
            f"| {outcome.accuracies[-1]:.2%} | {outcome.images_per_second:,.0f} |"
        )
    print(f"\nPlot: {(options.out / 'compare_families.png').resolve()}")
    numbers = [dataclasses.asdict(outcome) for outcome in outcomes]
    print(json.dumps({"backend": keras.backend.backend(), "families": numbers}))


def parse(arguments):
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--epochs", type=int, default=5, help="passes over the images")
    parser.add_argument("--learning-rate", type=float, default=2e-3, help="highest, after warm-up")
    parser.add_argument("--examples", type=int, default=10_000, help="images of each split to use")
    parser.add_argument("--seed", type=int, default=0, help="of weights and order")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("demo"), help="folder")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
