"""The pre-training of the Vision Transformer paper (arXiv 2010.11929, table 3).

    keras-vit pretrain pretrain_imagenet --data tfds:imagenet2012 --model.name=ViT_B16

All runs: batch 4096, Adam (0.9, 0.999), 10,000 steps of warm-up, 224 x 224, Inception crop and
flip, a head with one hidden layer (tanh), sigmoid cross-entropy with the head's bias at -ln of the
number of classes. On ImageNet gradients are clipped to a global norm of 1; the paper does not clip
elsewhere. Details that the paper leaves out are those of the authors' code and of their answers
(google-research/vision_transformer, issues 2 and 34).

Another batch size needs `--optimizer.accumulation`: 8 batches of 512 are one of 4096, exactly.
"""

from pipelines.recipes.config import (
    DataConfig,
    ModelConfig,
    OptimizerConfig,
    Recipe,
    log_bias,
    table_value,
)

WIDTHS = {"B": 768, "L": 1024, "H": 1280}

# Table 3: {model: (epochs, highest learning rate)}.
JFT = {
    "ViT_B32": (7, 8e-4),
    "ViT_B16": (7, 8e-4),
    "ViT_L32": (7, 6e-4),
    "ViT_L16": (14, 4e-4),  # also 7 epochs
    "ViT_H14": (14, 3e-4),
    "BiT_R50x1": (7, 1e-3),
    "BiT_R50x2": (7, 1e-3),
    "BiT_R101x1": (7, 8e-4),
    "BiT_R152x1": (7, 6e-4),
    "BiT_R152x2": (7, 6e-4),
    "R50_ViT_B32": (7, 8e-4),
    "R50_ViT_B16": (7, 8e-4),
    "R50_ViT_L32": (7, 2e-4),
    "R50_ViT_L16": (14, 4e-4),  # also 7 epochs
}
IMAGENET21K_EPOCHS = {"ViT_B32": 90, "ViT_B16": 90, "ViT_L32": 90, "ViT_L16": 90}  # L also 30
IMAGENET_MODELS = ("ViT_B32", "ViT_B16", "ViT_L32", "ViT_L16")


def pretrain_imagenet(model="ViT_B16"):
    """ImageNet from scratch: 300 epochs, 3e-3, cosine, weight decay 0.3, dropout 0.1.

    Expected before fine-tuning, at 224 (the authors, issue 62): B/32 69.19 %, B/16 74.79 %,
    L/32 66.90 %, L/16 72.59 %; after fine-tuning at 384 (table 5): 73.38, 77.91, 71.16, 76.53 %.
    Cost of B/16: 300 epochs of 1.28 million images, about 41 exaFLOPs.
    """
    table_value(dict.fromkeys(IMAGENET_MODELS), model, "`model.name`")
    return Recipe(
        model=_model(model, dropout_rate=0.1),
        data=DataConfig("tfds:imagenet2012"),
        optimizer=OptimizerConfig(
            learning_rate=3e-3, schedule="cosine", warmup=10_000, weight_decay=0.3
        ),
        objective="sigmoid",
        head_bias=log_bias(1000),
        epochs=300,
        batch_size=4096,
        few_shot=True,
    )


def pretrain_imagenet21k(model="ViT_B16"):
    """ImageNet-21k (14 million images): 90 epochs, 1e-3, linear to 1e-5, decay 0.03, dropout 0.1.

    Expected (table 5, ImageNet after fine-tuning at 384): B/32 81.28 %, B/16 83.97 %, L/32 80.99 %,
    L/16 85.15 %. Cost of L/16: 230 TPUv3-core-days. The data set is not in TFDS as it was: give
    `--data records:PATTERN` or a folder.
    """
    epochs = table_value(IMAGENET21K_EPOCHS, model, "`model.name`")
    rates = {"learning_rate": 1e-3, "final_learning_rate": 1e-5}
    return _large_data(model, 0.1, epochs, weight_decay=0.03, **rates)


def pretrain_jft(model="ViT_B16"):
    """Very large data, several classes an image (JFT-300M): 7 or 14 epochs, linear, decay 0.1.

    Learning rates and epochs are those of table 3, for each model. Expected (table 6, ImageNet
    after fine-tuning): B/16 84.15 %, L/16 87.12 %, H/14 88.08 %, R50+B/16 85.58 %, R50x1 77.54 %.
    Cost: 55 exaFLOPs for B/32 to 4262 for H/14, which is 2,500 TPUv3-core-days. JFT is not
    public: give your own `--data records:PATTERN`.
    """
    epochs, learning_rate = table_value(JFT, model, "`model.name`")
    dropout_rate = None if model.startswith("BiT") else 0.0
    return _large_data(model, dropout_rate, epochs, learning_rate=learning_rate, weight_decay=0.1)


def _large_data(model, dropout_rate, epochs, **optimizer):
    """What table 3 has for both of the larger data sets: linear decay, no clipping."""
    return Recipe(
        model=_model(model, dropout_rate),
        data=DataConfig(validation=0.01),
        optimizer=OptimizerConfig(schedule="linear", warmup=10_000, clip_norm=None, **optimizer),
        objective="sigmoid",
        head_bias=-10.0,
        epochs=epochs,
        batch_size=4096,
        few_shot=True,
    )


def _model(name, dropout_rate):
    arguments = {}
    if "ViT" in name:
        arguments["representation_size"] = WIDTHS[name.rpartition("ViT_")[2][0]]
    return ModelConfig(name, arguments=arguments, dropout_rate=dropout_rate)
