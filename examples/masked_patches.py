"""Pretrain without labels by masked patch prediction, then fine-tune on few labels.

The paper's preliminary self-supervision in small (arXiv 2010.11929, section B.1.2): half of the
patches of 10,000 images of Fashion-MNIST are corrupted, and the model learns to predict what they
looked like. Then it is fine-tuned on 1,000 labelled images. For comparison the same model is
trained from scratch on the same labels, for as many steps with the same settings. Both are done
for three seeds, which choose the weights, the order and the labelled images. Pretraining gains
three points (`docs/masked_patches.md` has the numbers).

    python examples/masked_patches.py
    python examples/masked_patches.py --help
"""

import argparse
import json
import pathlib
import time

import keras
import numpy as np

import keras_vit
from pipelines.batches import evaluation_batches, training_batches
from pipelines.sources.fashion_mnist import CLASS_NAMES, fashion_mnist

IMAGE_SIZE = (20, 20)  # pixels: 5 x 5 patches of 4
BATCH_SIZE = 50


def main(arguments=None):
    """Runs the example; returns the numbers that its last line prints."""
    options = parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    train = [array[: options.examples] for array in fashion_mnist("train")]
    test = [array[: options.examples] for array in fashion_mnist("test")]
    scratch, pretrained = [], []
    for seed in range(options.seeds):
        few = labelled(train, options.labels, seed)
        scratch.append(finetune(new_model(seed), few, test, seed, options))
        pretraining = pretrain(new_model(seed), train[0], seed, options)
        classifier = pretraining.to_classifier(len(CLASS_NAMES))
        pretrained.append(finetune(classifier, few, test, seed, options))
        print(f"seed {seed}: from scratch {scratch[-1]:.2%}, pretrained {pretrained[-1]:.2%}\n")
    pictures, _ = next(iter(evaluation_batches(*test, IMAGE_SIZE, 8)))
    figure = keras_vit.analysis.plot_reconstruction(pretraining, pictures.numpy())
    figure.savefig(options.out / "masked_patches.png", dpi=120)
    seconds = round(time.monotonic() - started, 1)
    return report({"scratch": scratch, "pretrained": pretrained, "seconds": seconds}, options)


def new_model(seed):
    """A small Vision Transformer with random weights."""
    keras.utils.set_random_seed(seed)
    return keras_vit.VisionTransformer(
        image_size=IMAGE_SIZE,
        patch_size=4,
        num_layers=4,
        num_heads=4,
        hidden_dim=64,
        mlp_dim=128,
        channels=1,
        classes=len(CLASS_NAMES),
        pooling="avg",  # what the head reads is then what was pretrained
        include_preprocessing=True,  # pixels of 0 to 255 go in
    )


def pretrain(model, images, seed, options):
    """Trains the model's encoder without labels; returns the model that did."""
    pretraining = keras_vit.MaskedPatchPrediction(
        model, target=options.target, mask_ratio=options.mask_ratio, seed=seed
    )
    epochs = options.pretrain_epochs
    pretraining.compile(optimizer(epochs * (len(images) // BATCH_SIZE), options.pretrain_rate))
    batches = augmented([images, np.zeros(len(images), "int32")], seed)  # nobody reads the zeros
    print(f"seed {seed}: pretraining on {len(images):,} images without labels")
    pretraining.fit(batches, epochs=epochs, shuffle=False, verbose=2)
    return pretraining


def finetune(model, few, test, seed, options):
    """Trains the classifier on few labelled images; returns its accuracy on the test images."""
    keras.utils.set_random_seed(seed)
    epochs, batches = options.finetune_epochs, augmented(few, seed)
    model.compile(
        optimizer(epochs * (len(few[0]) // BATCH_SIZE), options.finetune_rate),
        loss="sparse_categorical_crossentropy",
    )
    model.fit(batches, epochs=epochs, shuffle=False, verbose=0)
    test_batches = evaluation_batches(*test, IMAGE_SIZE, 500)
    labels = np.argmax(model.predict(test_batches, verbose=0), axis=-1)
    return round(float(np.mean(labels == test[1])), 4)


def optimizer(steps, learning_rate):
    """AdamW with warm-up, cosine decay and weight decay on the kernels."""
    warmup = steps // 10
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps - warmup, warmup_target=learning_rate, warmup_steps=warmup
    )
    return keras_vit.optimizers.AdamW(schedule, weight_decay=0.05, global_clipnorm=1.0)


def augmented(train, seed):
    return training_batches(*train, IMAGE_SIZE, BATCH_SIZE, seed=seed)


def labelled(train, number, seed):
    """So many of the images with their labels, as many of each class."""
    images, labels = train
    order = np.random.default_rng(seed).permutation(len(labels))
    each = number // len(CLASS_NAMES)
    chosen = [order[labels[order] == label][:each] for label in range(len(CLASS_NAMES))]
    chosen = np.concatenate(chosen)
    return images[chosen], labels[chosen]


def report(results, options):
    """Says what came out; the last line is JSON."""
    means = {name: float(np.mean(results[name])) for name in ("scratch", "pretrained")}
    gains = np.subtract(results["pretrained"], results["scratch"])
    print(
        f"""Accuracy on the test images, {options.labels:,} labels, mean of {options.seeds} seeds:
  trained from scratch     {means["scratch"]:.2%}
  pretrained, fine-tuned   {means["pretrained"]:.2%}
  difference by seed       {", ".join(f"{gain:+.2%}" for gain in gains)}
{(options.out / "masked_patches.png").resolve()} shows what is predicted of corrupted patches."""
    )
    results = {"gain": round(float(gains.mean()), 4), **results}
    print(json.dumps({"backend": keras.backend.backend(), **results}))
    return results


def parse(arguments):
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--pretrain-epochs", type=int, default=8, help="of all images")
    parser.add_argument("--finetune-epochs", type=int, default=40, help="of the labelled images")
    parser.add_argument("--pretrain-rate", type=float, default=2e-3, help="peak learning rate")
    parser.add_argument("--finetune-rate", type=float, default=2e-3, help="peak learning rate")
    parser.add_argument("--target", default="downsampled", help="what is predicted of a patch")
    parser.add_argument("--mask-ratio", type=float, default=0.5, help="share of corrupted patches")
    parser.add_argument("--examples", type=int, default=10_000, help="images of each split to use")
    parser.add_argument("--labels", type=int, default=1_000, help="images with a label")
    parser.add_argument("--seeds", type=int, default=3, help="how often all is done")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("demo"), help="folder")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
