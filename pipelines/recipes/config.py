"""What a run is: frozen records of plain values, the fields of every recipe.

Any field can be changed on the command line by its name, as `--optimizer.learning_rate=3e-4`.
"""

import dataclasses
import math

from keras_vit.layers import checks

SCHEDULES = ("cosine", "linear", "rsqrt", "step", "constant")
OPTIMIZERS = ("adamw", "sgd")
OBJECTIVES = ("softmax", "sigmoid", "masked_patch")
PRECISIONS = ("float32", "bfloat16", "mixed_bfloat16", "mixed_float16")


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Which model.

    Attributes:
        name: A named constructor of `keras_vit`, such as `"ViT_B16"`, or `"VisionTransformer"`.
        weights: What the named constructor takes as `weights`, or None.
        image_size: `(height, width)` in pixels.
        channels: Integer.
        arguments: Further arguments of the constructor, such as `{"pooling": "avg"}`.
        dropout_rate: Float; None is the constructor's own.
        drop_path_rate: Float; None is the constructor's own.
        patch_dropout_rate: Float; None is the constructor's own.
        regularization: Float, AugReg's one knob for the dropout and the stochastic depth together;
            None leaves them to their own fields.
        trainable: Regular expression of the layers that are trained, or `"all"`; `"probe"` trains
            the head on features as in inference.
        rematerialize: Whether blocks are computed again in the backward pass, to save memory.
    """

    name: str = "ViT_B16"
    weights: str | None = None
    image_size: tuple[int, int] = (224, 224)
    channels: int = 3
    arguments: dict = dataclasses.field(default_factory=dict)
    dropout_rate: float | None = None
    drop_path_rate: float | None = None
    patch_dropout_rate: float | None = None
    regularization: float | None = None
    trainable: str = "all"
    rematerialize: bool = False


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Which images, and what is done to them.

    Attributes:
        source: Where they come from, in the grammar of `pipelines.sources.grammar`; None must be
            given on the command line as `--data`.
        augment: A preset of `pipelines.augment`, or None for the plain resize.
        crop: A crop of `pipelines.augment` instead of the preset's, or None.
        label_smoothing: Float, the share of the labels that is spread over all classes.
        validation: Float, the share of the images that is held out where the source has no
            validation part of its own, or where `dev` is set.
        dev: Whether to hold that share out of the training images even if there is a validation
            part: the paper's way to choose hyper-parameters.
        fraction: Float, the share of the training images that is used.
    """

    source: str | None = None
    augment: str | None = "none"
    crop: str | None = None
    label_smoothing: float = 0.0
    validation: float = 0.1
    dev: bool = False
    fraction: float = 1.0

    def __post_init__(self):
        for name in ("validation", "label_smoothing"):
            checks.rate(getattr(self, name), f"data.{name}")
        if not 0 < self.fraction <= 1:
            raise ValueError(
                "`data.fraction` must be above 0 and at most 1. "
                f"Received: data.fraction={self.fraction}"
            )


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """How the weights move.

    Attributes:
        name: `"adamw"` or `"sgd"`.
        learning_rate: Float, the highest rate.
        schedule: `"cosine"`, `"linear"`, `"rsqrt"`, `"step"` or `"constant"`, after the warm-up.
        warmup: Float: updates, or below 1 the share of the run, in which the rate rises from 0.
        final_learning_rate: Float, of the cosine and linear schedules.
        boundaries: Of the step schedule: shares of the run at which the rate is divided by 10.
        timescale: Integer, of the rsqrt schedule.
        cooldown_steps: Integer, of the rsqrt schedule.
        weight_decay: Float, times the learning rate, on kernels only.
        beta_2: Float, of AdamW.
        momentum: Float, of SGD.
        clip_norm: Float, the largest global norm of the gradients; None does not clip.
        accumulation: Integer, batches an update: 8 of 64 are one of 512.
        averaging: Float, the momentum of the average of weights that is evaluated and saved; None
            is none.
        layer_decay: Float, the factor of the learning rate from one block to the one below; None
            is 1.
    """

    name: str = "adamw"
    learning_rate: float = 1e-3
    schedule: str = "cosine"
    warmup: float = 0.1
    final_learning_rate: float = 0.0
    boundaries: tuple[float, ...] = (0.3, 0.6, 0.9)
    timescale: int = 10_000
    cooldown_steps: int = 0
    weight_decay: float = 0.0
    beta_2: float = 0.999
    momentum: float = 0.9
    clip_norm: float | None = 1.0
    accumulation: int = 1
    averaging: float | None = None
    layer_decay: float | None = None

    def __post_init__(self):
        checks.one_of(self.name, "optimizer.name", OPTIMIZERS)
        checks.one_of(self.schedule, "optimizer.schedule", SCHEDULES)
        checks.positive_number(self.learning_rate, "optimizer.learning_rate")
        if checks.number(self.warmup, "optimizer.warmup") < 0:
            raise ValueError(
                f"`optimizer.warmup` must not be negative. Received: optimizer.warmup={self.warmup}"
            )
        checks.positive_integer(self.accumulation, "optimizer.accumulation")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A whole run.

    Attributes:
        model: `ModelConfig`.
        data: `DataConfig`.
        optimizer: `OptimizerConfig`.
        objective: `"softmax"` or `"sigmoid"` cross-entropy, the second also for images of several
            classes; or `"masked_patch"`, which needs no labels.
        head_bias: Float that the head's bias starts from, or None for 0.
        class_weights: Whether classes weigh by the inverse of their frequency.
        epochs: Integer; None where `steps` is given.
        steps: Integer, updates; None where `epochs` is given.
        rule: None, or `"bit"`: steps and schedule by BiT's rule, from the number of images.
        batch_size: Integer, images in one batch of the whole run, on all devices together.
        precision: `"float32"`, `"mixed_bfloat16"`, `"mixed_float16"` or `"bfloat16"`.
        seed: Integer, of weights, order, augmentation and dropout.
        patience: Epochs without a better validation before the run stops; None never stops early.
        few_shot: Whether few-shot accuracy is measured after each epoch.
        grid: `{field: values}` that the paper tries; what `--sweep` takes without values.
    """

    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    objective: str = "softmax"
    head_bias: float | None = None
    class_weights: bool = False
    epochs: int | None = None
    steps: int | None = None
    rule: str | None = None
    batch_size: int = 512
    precision: str = "float32"
    seed: int = 0
    patience: int | None = None
    few_shot: bool = False
    grid: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        checks.one_of(self.objective, "objective", OBJECTIVES)
        checks.one_of(self.precision, "precision", PRECISIONS)
        checks.one_of(self.rule, "rule", (None, "bit"))
        checks.positive_integer(self.batch_size, "batch_size")
        given = [name for name in ("epochs", "steps", "rule") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                "One of `epochs`, `steps` and `rule` says how long a run is. Received: "
                f"epochs={self.epochs}, steps={self.steps}, rule={self.rule!r}. "
                "Set the other to none, as in --epochs=none --steps=500."
            )
        for name in given:
            if name != "rule":
                checks.positive_integer(getattr(self, name), name)

    def to_dict(self):
        """Plain values, for a file."""
        return dataclasses.asdict(self)

    def total_steps(self, count):
        """How many updates the run makes on `count` training images."""
        if self.steps is not None:
            return self.steps
        return max(1, self.epochs * self.steps_per_epoch(count) // self.optimizer.accumulation)

    def steps_per_epoch(self, count):
        """Batches in one pass over `count` images; the rest of a pass is left out."""
        if count < self.batch_size:
            raise ValueError(
                f"`batch_size` must be at most the number of training images, {count}. "
                f"Received: batch_size={self.batch_size}"
            )
        return count // self.batch_size


def table_value(table, key, what):
    """The entry of a paper's table, or an error that lists what the table has."""
    if key not in table:
        raise ValueError(
            f"{what} must be one of {', '.join(map(repr, table))}. Received: {key!r}. "
            "Other models take these values by hand, from the closest."
        )
    return table[key]


def replace(recipe, **fields):
    """The recipe with fields changed; `model`, `data` and `optimizer` may be dicts of changes."""
    changed = {
        name: dataclasses.replace(getattr(recipe, name), **value)
        if isinstance(value, dict) and name in ("model", "data", "optimizer")
        else value
        for name, value in fields.items()
    }
    return dataclasses.replace(recipe, **changed)


def log_bias(classes):
    """-ln(classes), the bias of a sigmoid head in the paper's code: -6.9 for 1,000."""
    return -math.log(classes)
