"""How to train your ViT: augmentation and regularisation (AugReg, arXiv 2106.10270).

    keras-vit pretrain augreg_imagenet --data tfds:imagenet2012 --model.name=ViT_S16

A run is three choices: `--data.augment`, one of none, light1, light2, medium1, medium2, strong1 and
strong2 (table of section 3.2); `--model.regularization`, 0 or 0.1, for dropout and stochastic depth
together; `--optimizer.weight_decay`, 0.1 or 0.03. The paper tries all 28. Otherwise Adam, batch
4096, 10,000 steps of warm-up, cosine, global norm 1, 224 x 224. Prefer augmentation to
regularisation.

Expected on ImageNet (table 3: from scratch in 300 epochs; at 224, and fine-tuned at 384): Ti/16
69.56 and 74.64 %, S/32 69.19 and 75.65, S/16 77.51 and 80.70, B/32 71.38 and 76.60, B/16 78.73 and
81.63, L/16 74.01 and 77.21, R26+S/32 78.20 and 81.55. Cost: S/16 takes about 23 hours on a
TPUv3-8 (300 epochs at 4,900 images a second).
"""

from pipelines.recipes.config import (
    DataConfig,
    ModelConfig,
    OptimizerConfig,
    Recipe,
    log_bias,
    table_value,
)

# The authors' defaults (big_vision): (augmentation, regularisation).
IMAGENET = {
    "ViT_Ti16": ("light1", 0.0),
    "ViT_S32": ("medium1", 0.0),
    "ViT_S16": ("medium2", 0.0),
    "ViT_B32": ("medium2", 0.1),
    "ViT_B16": ("medium2", 0.1),
    "ViT_L16": ("medium2", 0.1),
    "R_ViT_Ti16": ("light1", 0.0),
    "R26_ViT_S32": ("medium2", 0.1),
    "R50_ViT_L32": ("medium2", 0.1),
}
# The checkpoints that the authors recommend: (augmentation, regularisation, weight decay).
IMAGENET21K = {
    "ViT_Ti16": ("none", 0.0, 0.03),
    "ViT_S32": ("none", 0.0, 0.1),
    "ViT_S16": ("light1", 0.0, 0.03),
    "ViT_B32": ("light1", 0.0, 0.1),
    "ViT_B16": ("medium1", 0.0, 0.1),
    "ViT_L16": ("strong1", 0.0, 0.1),
    "R_ViT_Ti16": ("none", 0.0, 0.03),
    "R26_ViT_S32": ("light1", 0.0, 0.1),
    "R50_ViT_L32": ("medium1", 0.1, 0.1),
}


def augreg_imagenet(model="ViT_S16"):
    """ImageNet from scratch in 300 epochs, with sigmoid cross-entropy and 0.1 of weight decay."""
    augment, regularization = table_value(IMAGENET, model, "`model.name`")
    return _pretraining(model, augment, regularization, 0.1, "tfds:imagenet2012", log_bias(1000))


def augreg_imagenet21k(model="ViT_S16"):
    """ImageNet-21k in 300 epochs (also 30), without a hidden layer in the head.

    Expected on ImageNet after fine-tuning at 384: Ti/16 78.22 %, S/16 83.73, B/16 85.49, L/16
    85.59.
    """
    augment, regularization, decay = table_value(IMAGENET21K, model, "`model.name`")
    return _pretraining(model, augment, regularization, decay, None, -10.0)


def augreg_finetune(model="ViT_S16"):
    """Fine-tuning of AugReg's checkpoints: SGD, batch 512, cosine, no dropout, 384 x 384.

    Its grid (section 3.4): ImageNet 0.01 and 0.03 in 20,000 steps with 500 of warm-up; Pets and
    KITTI 0.001, 0.003 and 0.01 in 500 (100) or 2,500 (200); CIFAR-100 and Resisc45 the same in
    2,500 (200) or 10,000 (500). As given here: Pets.
    """
    return Recipe(
        model=ModelConfig(model, weights="imagenet21k", image_size=(384, 384), regularization=0.0),
        data=DataConfig("tfds:oxford_iiit_pet"),
        optimizer=OptimizerConfig("sgd", learning_rate=0.003, warmup=100),
        steps=500,
        grid={"optimizer.learning_rate": (0.001, 0.003, 0.01)},
    )


def _pretraining(model, augment, regularization, weight_decay, source, head_bias):
    return Recipe(
        model=ModelConfig(model, regularization=regularization),
        data=DataConfig(source, augment=augment, validation=0.01),
        optimizer=OptimizerConfig(learning_rate=1e-3, warmup=10_000, weight_decay=weight_decay),
        objective="sigmoid",
        head_bias=head_bias,
        epochs=300,
        batch_size=4096,
        few_shot=True,
    )
