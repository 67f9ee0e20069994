"""From a recipe to a model that is ready to be trained, and from that to one to be used."""

import dataclasses
import math
import re

import keras
import numpy as np

import keras_vit
from keras_vit.applications.facts import CONSTRUCTORS
from keras_vit.applications.from_file import model_from_file
from keras_vit.layers import initial_values
from keras_vit.losses import SigmoidCrossentropy
from keras_vit.metrics import HitAtOne
from keras_vit.models.build import build_model
from keras_vit.optimizers import (
    SGD,
    AdamW,
    WarmupCosine,
    WarmupLinear,
    WarmupRsqrt,
    WarmupSteps,
    layerwise_factors,
)
from pipelines.distribution.engine import Engine
from pipelines.sources.source import listed

# What makes logits into probabilities.
ACTIVATIONS = {"softmax": "softmax", "sigmoid": "sigmoid", "masked_patch": "softmax"}
HEAD = ("head", "pre_logits")
EXACT_LOSS = "loss_of_images"  # the name of the metric


def without_padding(logs):
    """Keras's logs of an epoch, with the mean loss of the images in the place of that of the rows.

    The last batch of an evaluation is filled up with rows of weight 0, which Keras's own loss
    counts as images with a loss of 0.
    """
    logs = dict(logs)
    for prefix in ("", "val_"):
        if f"{prefix}{EXACT_LOSS}" in logs:
            logs[f"{prefix}loss"] = logs.pop(f"{prefix}{EXACT_LOSS}")
    return logs


def build(recipe, class_names, engine=None):
    """The model of a recipe, not compiled. It gives logits.

    Args:
        recipe: A `Recipe`.
        class_names: Strings, in the order of the outputs.
        engine: What `with pipelines.distribute(...) as d` gave, or None.

    Returns:
        An `ImageModel`, or a `MaskedPatchPrediction` of one.

    Raises:
        ValueError: if the recipe describes no model, or the weights do not fit it.
    """
    keras.utils.set_random_seed(recipe.seed)
    config, engine = recipe.model, engine or Engine()
    if config.arguments.get("classes", len(class_names)) != len(class_names):
        raise ValueError(
            f"The data have {len(class_names)} classes: {listed(class_names)}. "
            f"Received: model.arguments.classes={config.arguments['classes']!r}"
        )
    if config.name == "file":
        model = _from_file(recipe, tuple(class_names), engine)
    else:
        model = _named(recipe, tuple(class_names))
    if engine.splits_over_hosts(model.variables):
        _check_shards(recipe)
    if recipe.head_bias is not None and recipe.objective == "sigmoid" and config.weights is None:
        keras_vit.set_head_bias(model, recipe.head_bias)
    if config.trainable == "probe":
        model = keras_vit.linear_probe(model)
    elif config.trainable != "all":
        keras_vit.freeze(model, keep=config.trainable)
    if config.rematerialize:
        keras_vit.rematerialize(model)
    if recipe.objective == "masked_patch":
        return keras_vit.MaskedPatchPrediction(model, seed=recipe.seed)
    return model


def _check_shards(recipe):
    """Refuses what copies a model from variable to variable, which no process can read alone."""
    received = {"objective": recipe.objective, "model.trainable": recipe.model.trainable}
    if "masked_patch" in received.values() or "probe" in received.values():
        raise ValueError(
            "Masked patches and probes need variables that are whole on every device: in several "
            f"processes use the distribution 'data'. Received: {received}"
        )


def compile_model(model, recipe, total_steps, one_hot, multi_label=False):
    """Gives a model the optimizer, loss and metrics of a recipe.

    Args:
        model: From `build`.
        recipe: A `Recipe`.
        total_steps: Integer, all updates of the run.
        one_hot: Whether targets are `(B, K)`.
        multi_label: Whether an image may be of several classes.

    Raises:
        ValueError: if it may, and the loss takes one class an image.
    """
    if multi_label and recipe.objective == "softmax":
        raise ValueError(
            "A softmax is for one class an image, and these images are of several: set "
            "--objective=sigmoid. Received: objective='softmax'"
        )
    optimizer = make_optimizer(recipe.optimizer, total_steps, model)
    if recipe.objective == "masked_patch":
        model.compile(optimizer)
        return
    losses = keras.losses
    if recipe.objective == "sigmoid":
        loss = SigmoidCrossentropy()
    elif one_hot:
        loss = losses.CategoricalCrossentropy(from_logits=True)
    else:
        loss = losses.SparseCategoricalCrossentropy(from_logits=True)
    # Weighted, so that the rows that fill up the last batch of an evaluation do not count. They
    # would count in the loss that Keras reports, hence one more metric.
    exact_loss = keras.metrics.MeanMetricWrapper(loss.call, name=EXACT_LOSS)
    metrics = [*_metrics(model, one_hot, multi_label), exact_loss]
    model.compile(optimizer, loss, weighted_metrics=metrics)


def make_optimizer(config, total_steps, model):
    """The optimizer of an `OptimizerConfig` for a run of so many updates."""
    common = {
        "learning_rate": make_schedule(config, total_steps),
        "global_clipnorm": config.clip_norm,
        "gradient_accumulation_steps": config.accumulation if config.accumulation > 1 else None,
        "use_ema": config.averaging is not None,
        "ema_momentum": config.averaging or 0.99,
        "rate_factors": None,
    }
    if config.layer_decay is not None:
        common["rate_factors"] = layerwise_factors(model, config.layer_decay)
    if config.name == "sgd":
        decay = config.weight_decay or None
        return SGD(momentum=config.momentum, weight_decay=decay, **common)
    return AdamW(weight_decay=config.weight_decay, beta_2=config.beta_2, **common)


def make_schedule(config, total_steps):
    """The learning rate of an `OptimizerConfig`: a schedule, or for "constant" without warm-up one
    float."""
    warmup = config.warmup
    warmup = math.floor(warmup * total_steps) if warmup < 1 else round(warmup)
    rate, schedule = config.learning_rate, config.schedule
    if schedule == "cosine":
        return WarmupCosine(rate, total_steps, warmup, config.final_learning_rate)
    if schedule == "linear":
        return WarmupLinear(rate, total_steps, warmup, config.final_learning_rate)
    if schedule == "rsqrt":
        return WarmupRsqrt(rate, total_steps, warmup, config.timescale, config.cooldown_steps)
    boundaries = [round(share * total_steps) for share in config.boundaries]
    return WarmupSteps(rate, total_steps, warmup, boundaries if schedule == "step" else ())


def deployable(model, objective, engine=None):
    """A copy that gives probabilities, with the weights as they are now.

    All processes of a run must call it.

    Args:
        model: From `build`.
        objective: As of a `Recipe`.
        engine: As of `build`.

    Returns:
        An `ImageModel`, not compiled. It is this process's own.
    """
    engine = engine or Engine()
    source = model
    if isinstance(model, keras_vit.MaskedPatchPrediction):
        with engine.alone():
            source = model.to_classifier(model.model_spec.classes)
    activation = ACTIVATIONS[objective] if source.spec.include_top else None
    spec = dataclasses.replace(source.spec, classifier_activation=activation)
    values = _values(source, engine)
    with engine.alone():
        return _with_values(values, spec, source.name)


def _values(source, engine):
    """{path: array} of all weights, on every process."""
    paths = [variable.path for variable in source.weights]
    # Copies: on JAX, training gives its arrays away.
    return {
        path: np.array(value)
        for path, value in zip(paths, engine.fetch(source.weights), strict=True)
    }


def _with_values(values, spec, name, without=()):
    """A model of a spec with these weights, but for some layers."""
    with initial_values.skipped():
        model = build_model(spec, name=name)
    for variable in model.weights:
        if variable.path.split("/")[0] not in without:
            variable.assign(values[variable.path])
    return model


def _metrics(model, one_hot, multi_label):
    metrics = keras.metrics
    classes = model.spec.classes
    if not one_hot:
        found = [metrics.SparseCategoricalAccuracy(name="accuracy")]
        top5 = metrics.SparseTopKCategoricalAccuracy
    else:
        accuracy = HitAtOne() if multi_label else metrics.CategoricalAccuracy(name="accuracy")
        found, top5 = [accuracy], metrics.TopKCategoricalAccuracy
    # Of five classes or fewer, the best five always hold the right one.
    return found if multi_label or classes <= 5 else [*found, top5(5, name="top5_accuracy")]


def _named(recipe, class_names):
    """The model of a constructor's name."""
    config = recipe.model
    if config.name not in (*CONSTRUCTORS, "VisionTransformer", "BiTResNet"):
        raise ValueError(
            "`model.name` must be 'file', 'VisionTransformer', 'BiTResNet' or one of "
            f"{', '.join(CONSTRUCTORS)}. Received: model.name={config.name!r}"
        )
    arguments = {
        **config.arguments,
        **_rates(config),
        "classes": len(class_names),
        "classifier_activation": None,
        "dtype": recipe.precision,
    }
    if config.name in CONSTRUCTORS:
        arguments["input_shape"] = (*config.image_size, config.channels)
        arguments["weights"] = config.weights
    elif config.weights is not None:
        raise ValueError(
            "A model by its sizes has no weights of its own. Received: "
            f"model.name={config.name!r}, model.weights={config.weights!r}. To go on from a file, "
            "set --model.name=file."
        )
    else:
        arguments.update(image_size=config.image_size, channels=config.channels)
    model = _construct(config.name, arguments)
    model.spec = dataclasses.replace(model.spec, class_names=class_names)
    return model


def _construct(name, arguments):
    """Calls a constructor; an argument that it does not take is said as one of the recipe's."""
    try:
        return getattr(keras_vit, name)(**arguments)
    except TypeError as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if unknown is None:
            raise
        raise ValueError(
            "`model.arguments`, and the other fields of the model, must be arguments of "
            f"keras_vit.{name}. Received: {unknown[1]}={arguments[unknown[1]]!r}"
        ) from error


def _from_file(recipe, class_names, engine):
    """The model of a file, at the recipe's size; with a fresh head for other classes."""
    config = recipe.model
    if config.weights is None:
        raise ValueError(
            "This recipe goes on from a model: give its file, --weights runs/NAME/final.keras. "
            "Received: model.weights=None"
        )
    with engine.alone():  # the file's model is only read
        found = model_from_file(config.weights, config.image_size)[0]
        values = _values(found, Engine())
    _check_of_file(config, found.spec)
    fields = {field.name for field in dataclasses.fields(found.spec)}
    rates = _rates(config)
    if unknown := {name: rate for name, rate in rates.items() if rate and name not in fields}:
        raise ValueError(
            f"{config.weights} holds a model of the family {found.spec.family!r}, which does not "
            f"have these. Received: {', '.join(f'model.{n}={r}' for n, r in unknown.items())}"
        )
    rates = {name: rate for name, rate in rates.items() if name in fields}
    changes = {**rates, "classifier_activation": None, "dtype": recipe.precision}
    names = found.spec.class_names
    same = found.spec.include_top and names == class_names
    changes.update(include_top=True, classes=len(class_names), class_names=class_names)
    if not same and "representation_size" in fields:
        changes["representation_size"] = None  # both layers make room for one, as in the paper
    spec = dataclasses.replace(found.spec, **changes)
    return _with_values(values, spec, found.name, () if same else HEAD)


def _check_of_file(config, spec):
    """Refuses what the file decides, where the recipe says something else."""
    said = {name: value for name, value in config.arguments.items() if name != "classes"}
    received = {f"model.arguments.{name}": value for name, value in said.items()}
    if config.channels != spec.channels:
        received["model.channels"] = config.channels
    if received:
        raise ValueError(
            f"The model of {config.weights} decides its sizes and has {spec.channels} channels: "
            "leave these out, or name a constructor by --model.name. Received: "
            f"{', '.join(f'{name}={value!r}' for name, value in received.items())}"
        )


def _rates(config):
    rates = {"dropout_rate": config.dropout_rate, "drop_path_rate": config.drop_path_rate}
    if config.regularization is not None:
        rates = dict.fromkeys(rates, config.regularization)
    rates["patch_dropout_rate"] = config.patch_dropout_rate
    return {name: value for name, value in rates.items() if value is not None}
