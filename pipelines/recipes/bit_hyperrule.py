"""BiT-HyperRule: one rule for fine-tuning on any data (Big Transfer, arXiv 1912.11370).

keras-vit finetune bit_hyperrule --data photos/ --model.name=BiT_R50x1
"""

from pipelines.recipes.config import DataConfig, ModelConfig, OptimizerConfig, Recipe, replace

# Fewer images than this, steps, steps of warm-up, steps at which the rate is divided by 10: the
# schedules of the authors' code.
SIZES = (
    (20_000, 500, 100, (200, 300, 400)),
    (500_000, 10_000, 500, (3_000, 6_000, 9_000)),
    (float("inf"), 20_000, 500, (6_000, 12_000, 18_000)),
)


def bit_hyperrule(model="BiT_R50x1"):
    """SGD 0.003 with momentum 0.9, batch 512, no weight decay; steps by the number of images.

    Fewer than 20,000 images: 500 steps; fewer than 500,000: 10,000; else 20,000. The rate is
    divided by 10 at 30, 60 and 90 % of the run (in the shortest, at 200, 300 and 400 steps). Images
    smaller than 96 x 96 are resized to 160 and cropped to 128, others to 448 and 384; Mixup of 0.1
    but for the smallest size. The defaults here are for others than the smallest images.

    Expected (table 2 of the paper, BiT-M R152x4 from ImageNet-21k): CIFAR-10 98.91 %, CIFAR-100
    92.17, Pets 94.46, Flowers 99.30.
    """
    return Recipe(
        model=ModelConfig(model, weights="imagenet21k", image_size=(384, 384)),
        data=DataConfig(augment="bit"),
        optimizer=OptimizerConfig(
            "sgd", learning_rate=0.003, schedule="step", warmup=500, clip_norm=None
        ),
        rule="bit",
        batch_size=512,
    )


def apply_rule(recipe, count):
    """The recipe with the steps and the schedule that the rule has for `count` images."""
    steps, warmup, boundaries = next(row[1:] for row in SIZES if count < row[0])
    shares = tuple(boundary / steps for boundary in boundaries)
    changes = {"warmup": warmup, "boundaries": shares}
    return replace(recipe, rule=None, steps=steps, optimizer=changes)
