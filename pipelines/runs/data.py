"""The images of a run: opened once, read from any step on."""

import dataclasses

from keras_vit.layers import checks
from pipelines.augment import augmentation
from pipelines.loading import CACHE, load
from pipelines.sources.grammar import open_source
from pipelines.sources.source import Source, are_numbers, check_labels
from pipelines.sources.splits import fraction, hold_out
from pipelines.sources.stream import in_memory


@dataclasses.dataclass(frozen=True, eq=False)
class RunData:
    """Training and validation images of a recipe.

    Attributes:
        train: A `Source` or `RecordStream`, whose labels have been checked against its classes.
        validation: The same, or None.
        recipe: The `Recipe`.
    """

    train: object
    validation: object
    recipe: object

    @property
    def class_names(self):
        """Tuple of strings."""
        return self.train.class_names

    @property
    def multi_label(self):
        """Whether an image may be of several classes."""
        return self.train.multi_label

    @property
    def one_hot(self):
        """Whether the loss needs targets `(B, K)`."""
        return self.recipe.objective == "sigmoid" or self.multi_label or self.augment.mixes

    @property
    def augment(self):
        """The recipe's `Augment`."""
        config = self.recipe.data
        changes = {"label_smoothing": config.label_smoothing} if config.label_smoothing else {}
        if config.crop is not None:
            changes["crop"] = config.crop
        return dataclasses.replace(augmentation(config.augment), **changes)

    def batches(self, model, start, distribute=None):
        """Endless training batches from a step on, and the validation batches or None."""
        return load(
            self.train,
            model=model,
            batch_size=self.recipe.batch_size,
            augment=self.augment,
            seed=self.recipe.seed,
            validation=False if self.validation is None else self.validation,
            distribute=distribute,
            class_names=self.class_names,
            one_hot=self.one_hot,
            start_step=start,
            repeat=True,
        )

    def class_weights(self):
        """{class: weight}, the inverse of its frequency, with a mean of 1 over the images."""
        labels = getattr(self.train, "labels", None)
        if labels is None or self.multi_label:
            raise ValueError(
                "`class_weights` needs one label an image, and images in random access. "
                f"Received: class_weights=true for {self.train.name}"
            )
        classes = len(self.class_names)
        counts = [int((labels == k).sum()) for k in range(classes)]
        present = sum(count > 0 for count in counts)
        return {k: len(labels) / (present * n) if n else 0.0 for k, n in enumerate(counts)}


def open_data(recipe):
    """Opens the images of a recipe.

    Raises:
        ValueError: if the recipe names none, or they are not as they should be.
    """
    config = recipe.data
    if config.source is None:
        raise ValueError(
            "This recipe has no data of its own. Give them, for example --data photos/ or "
            "--data tfds:NAME. Received: data.source=None"
        )
    train = in_memory(open_source(config.source, "train"), CACHE)
    train = _numbered(train, recipe.model.arguments.get("classes"))
    validation = None
    if not config.dev:
        validation = open_source(config.source, "validation", train.class_names)
        validation = in_memory(validation, CACHE)
    if validation is None and config.validation:
        train, validation = hold_out(train, config.validation)
    return RunData(fraction(train, config.fraction), validation, recipe)


def has_own_validation(config):
    """Whether the source of a `DataConfig` has a validation or test part of its own."""
    return open_source(config.source, "validation") is not None


def _numbered(source, classes):
    """A source whose classes are only numbers, with as many of them as were asked for.

    Else one wrong label would make a model of as many classes.
    """
    if classes is None or not are_numbers(source.class_names):
        return source
    checks.positive_integer(classes, "model.arguments.classes")
    if len(source.class_names) <= classes:
        return source.relabel(map(str, range(classes)))
    if isinstance(source, Source) and not source.multi_label:
        check_labels(source.labels, classes, source.name)
    return source  # too many, as `build` will say
