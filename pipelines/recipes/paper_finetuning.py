"""The fine-tuning of the Vision Transformer paper (arXiv 2010.11929, table 4).

    keras-vit finetune finetune_pets --weights ViT-B_16.npz --data tfds:oxford_iiit_pet

All runs: SGD with momentum 0.9, cosine decay to 0, batch 512, no weight decay, global norm 1,
384 x 384, a new zero head instead of both layers of the old one, softmax cross-entropy, Inception
crop and flip. Warm-up as in the authors' code: 500 steps, and 100 in runs of 500.

The learning rate is chosen from the grid on a held-out part of the training set and the run is
repeated on all of it, three times:

    keras-vit finetune finetune_pets --sweep optimizer.learning_rate --seeds 3

Expected accuracies (table 5, per cent; pre-trained on ImageNet-21k, fine-tuned at 384):

|          | B/16  | B/32  | L/16  | L/32  | H/14  |
|----------|-------|-------|-------|-------|-------|
| CIFAR-10 | 98.95 | 98.79 | 99.16 | 99.13 | 99.27 |
| CIFAR-100| 91.67 | 91.97 | 93.44 | 93.04 | 93.82 |
| ImageNet | 83.97 | 81.28 | 85.15 | 80.99 | 85.13 |
| Flowers  | 99.38 | 99.11 | 99.61 | 99.19 | 99.51 |
| Pets     | 94.43 | 93.02 | 94.73 | 93.09 | 94.82 |

Cost of B/16 on 8 A100, by the authors' logs: ImageNet 6.5 hours, CIFAR-10 2.2 hours.
"""

from pipelines.recipes.config import DataConfig, ModelConfig, OptimizerConfig, Recipe, replace

WEIGHTS = "imagenet21k"
LARGE_GRID = (0.003, 0.01, 0.03, 0.06)
GRID = (0.001, 0.003, 0.01, 0.03)


def finetune_imagenet(model="ViT_B16"):
    """ImageNet: 20,000 steps; 1 % of the training images choose the learning rate."""
    return _finetuning(model, "tfds:imagenet2012", 20_000, 0.03, LARGE_GRID, held_out=0.01)


def finetune_imagenet_512(model="ViT_L16"):
    """ImageNet at 512 x 512, for H/14 518 x 518, with Polyak averaging of 0.9999 (table 2).

    Expected: L/16 from ImageNet-21k 85.30 %, from JFT 87.76 %; H/14 from JFT 88.55 %.
    """
    size = 518 if model == "ViT_H14" else 512
    recipe = finetune_imagenet(model)
    return replace(recipe, model={"image_size": (size, size)}, optimizer={"averaging": 0.9999})


def finetune_cifar10(model="ViT_B16"):
    """CIFAR-10: 10,000 steps; 2 % of the training images choose the learning rate."""
    return _finetuning(model, "tfds:cifar10", 10_000, 0.01, GRID, held_out=0.02)


def finetune_cifar100(model="ViT_B16"):
    """CIFAR-100: 10,000 steps; 2 % of the training images choose the learning rate."""
    return _finetuning(model, "tfds:cifar100", 10_000, 0.01, GRID, held_out=0.02)


def finetune_pets(model="ViT_B16"):
    """Oxford-IIIT Pets: 500 steps; 10 % of the training images choose the learning rate."""
    return _finetuning(model, "tfds:oxford_iiit_pet", 500, 0.01, GRID, held_out=0.1)


def finetune_flowers(model="ViT_B16"):
    """Oxford Flowers-102: 500 steps; 10 % of the training images choose the learning rate."""
    return _finetuning(model, "tfds:oxford_flowers102", 500, 0.01, GRID, held_out=0.1)


def finetune_vtab(model="ViT_B16"):
    """One task of VTAB-1k: 2,500 steps at 0.01 on 1,000 examples, for all 19 tasks alike.

    Give `--data tfds:NAME`; `keras-vit vtab` runs all tasks.
    """
    return _finetuning(model, None, 2_500, 0.01, (0.01,), held_out=0.2)


def _finetuning(model, source, steps, learning_rate, grid, held_out):
    return Recipe(
        model=ModelConfig(model, weights=WEIGHTS, image_size=(384, 384)),
        data=DataConfig(source, validation=held_out),
        optimizer=OptimizerConfig(
            "sgd",
            learning_rate=learning_rate,
            warmup=100 if steps == 500 else 500,
            clip_norm=1.0,
        ),
        steps=steps,
        batch_size=512,
        grid={"optimizer.learning_rate": grid},
    )
