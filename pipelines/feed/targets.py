"""Labels as the loss needs them."""

import dataclasses

from pipelines._tensorflow import tf
from pipelines.sources.source import listed

INDEX, ONE_HOT, BINARY = "index", "one_hot", "binary"


@dataclasses.dataclass(frozen=True)
class Targets:
    """Turns labels into targets.

    Attributes:
        kind: `"index"`, int32 scalars; `"one_hot"`, float32 `(classes,)`, also of 0 and 1 where an
            image may be of several classes; or `"binary"`, float32 `(1,)`.
        classes: Integer.
    """

    kind: str
    classes: int

    def __call__(self, label):
        """The target of one label."""
        if label.shape.rank == 1:
            return tf.cast(label, "float32")
        if self.kind == ONE_HOT:
            return tf.one_hot(label, self.classes, dtype="float32")
        if self.kind == BINARY:
            return tf.cast(label, "float32")[None]
        return tf.cast(label, "int32")

    def nothing(self):
        """The target of a row without an image."""
        if self.kind == INDEX:
            return tf.constant(0, "int32")
        return tf.zeros((self.classes if self.kind == ONE_HOT else 1,), "float32")


def targets_for(source, model, augment, one_hot=None):
    """The targets for a source and a model.

    Args:
        source: A `Source` or `RecordStream`.
        model: A model of this library.
        augment: An `Augment`.
        one_hot: Whether labels shall be one-hot. None: where Mixup, CutMix or label smoothing need
            it, where images are of several classes, where the classifier ends in a sigmoid, or
            where the model is compiled with a loss that is not "sparse".

    Raises:
        ValueError: if the labels cannot be what the loss, or the augmentation, needs.
    """
    classes = len(source.class_names)
    check_classes(source, model.spec)
    if model.spec.include_top and model.spec.classes == 1:
        return Targets(BINARY, 1)
    needs = augment.mixes or source.multi_label
    loss = _loss_takes_one_hot(model)
    if one_hot is None:
        sigmoid = model.spec.include_top and model.spec.classifier_activation == "sigmoid"
        one_hot = needs or (sigmoid if loss is None else loss)
    if needs and (not one_hot or loss is False):
        raise ValueError(
            "Mixup, CutMix, label smoothing and images of several classes need labels that are "
            "one-hot, and a loss that takes them, such as 'categorical_crossentropy'. Received: "
            f"one_hot={one_hot}, loss={_name_of_loss(model)!r}"
        )
    return Targets(ONE_HOT if one_hot else INDEX, classes)


def check_classes(source, spec):
    """Raises a ValueError unless the model has one output for each class of the source."""
    classes = len(source.class_names)
    binary = spec.classes == 1 and classes == 2 and spec.classifier_activation != "softmax"
    if spec.include_top and spec.classes != classes and not binary:
        raise ValueError(
            f"The model has {spec.classes} classes, and {source.name} has {classes}: "
            f"{listed(source.class_names)}. Build the model with `classes={classes}`, or name all "
            "classes of the model with `class_names`, on the command line `--classes-file`."
        )


def _loss_takes_one_hot(model):
    """True, False, or None where the model does not say."""
    name = _name_of_loss(model).lower()
    if "crossentropy" not in name.replace("_", ""):
        return None
    return "sparse" not in name


def _name_of_loss(model):
    if not getattr(model, "compiled", False):
        return ""
    loss = model.loss
    return loss if isinstance(loss, str) else getattr(loss, "name", type(loss).__name__)
