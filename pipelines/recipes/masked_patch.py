"""Masked patch prediction: pre-training without labels (arXiv 2010.11929, section B.1.2).

keras-vit pretrain masked_patch --data photos/ --steps=10000
keras-vit finetune folder --model.name=file --weights runs/masked_patch/final.keras --data photos/
"""

from pipelines.recipes.config import DataConfig, ModelConfig, OptimizerConfig, Recipe


def masked_patch(model="ViT_B16"):
    """Half of the patches corrupted, their mean colours predicted: 1 million steps of 4096.

    Adam, 2e-4, 10,000 steps of warm-up, cosine. Expected: 79.9 % on ImageNet after fine-tuning for
    B/16 pre-trained on JFT, 2 % above training from scratch; 100,000 steps do nearly as well, and
    so does ImageNet as the data.
    """
    return Recipe(
        model=ModelConfig(model),
        data=DataConfig("tfds:imagenet2012", validation=0.01),
        optimizer=OptimizerConfig(learning_rate=2e-4, warmup=10_000, clip_norm=None),
        objective="masked_patch",
        steps=1_000_000,
        batch_size=4096,
    )
