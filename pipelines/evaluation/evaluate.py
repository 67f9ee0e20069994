"""How good a model is on labelled images, image by image: nothing is counted twice or left out."""

import dataclasses
import json
import sys

import numpy as np

import keras_vit
from keras_vit.analysis.figures import new_figure
from keras_vit.applications.class_names import class_names as read_class_names
from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.image_model import require_spec
from keras_vit.models.spec import ViTSpec
from pipelines.distribution.engine import Engine
from pipelines.evaluation import multi_label
from pipelines.feed.targets import INDEX, ONE_HOT, Targets, check_classes
from pipelines.loading import evaluation_data
from pipelines.logits import activation_of_logits
from pipelines.sources.grammar import open_source
from pipelines.sources.model_labels import with_labels_of
from pipelines.sources.stream import in_memory

BINS = 15  # of the calibration error
SMALLEST = 1e-12  # probabilities below count as this in the loss


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What was measured.

    Attributes:
        count: Integer, images with a label.
        top1: Float, share of images whose likeliest class is right.
        top5: The same of the five likeliest; None for five classes or fewer, where it says nothing.
        loss: Float, the mean of -ln of the right class's probability.
        calibration_error: Float, the expected calibration error in 15 bins of equal width.
        per_class: Tuple of `(name, images, accuracy)`; the accuracy of a class without images is
            None.
        confusion: Integers `(K, K)`: images of the row's class that were taken for the column's.
    """

    count: int
    top1: float
    top5: float | None
    loss: float
    calibration_error: float
    per_class: tuple
    confusion: np.ndarray

    def to_dict(self):
        """Plain values, without the confusion matrix."""
        fields = dataclasses.asdict(self)
        fields.pop("confusion")
        return fields

    def summary(self):
        """One line of text."""
        top5 = "-" if self.top5 is None else f"{self.top5:.2%}"
        return (
            f"{self.count:,} images: top-1 {self.top1:.2%}, top-5 {top5}, loss {self.loss:.4f}, "
            f"calibration error {self.calibration_error:.2%}"
        )

    def class_table(self):
        """One line of text a class, the worst first."""
        rows = sorted(self.per_class, key=lambda row: (row[2] is None, row[2]))
        width = max(len(name) for name, _, _ in rows)
        return "\n".join(
            f"  {name:<{width}}  {count:6d}  {'-' if share is None else f'{share:8.2%}'}"
            for name, count, share in rows
        )


def evaluate(model, data, *, batch_size=64, split="validation", class_names=None, distribute=None):
    """Measures a model on the images of a source.

    Args:
        model: An `ImageModel` with a top.
        data: A source, see `pipelines.sources.grammar`.
        batch_size: Integer, over all devices.
        split: `"validation"`, or `"train"`; a source without a validation part is taken whole.
        class_names: Names of the model's outputs, in their order, or the path of a file with them,
            for a model that does not know them; None is the model's own.
        distribute: What `with pipelines.distribute(...) as d` gave, or None. Every process has the
            same result.

    Returns:
        An `Evaluation`; a `MultiLabelEvaluation` where an image may be of several classes.

    Raises:
        ValueError: if the source's classes are not the model's, or images are of several classes
            and the model ends in a softmax.

    Example:

    >>> print(evaluate(model, "photos/").summary())
    """
    source = labelled(model, open_labelled(data, split), class_names)
    p = probabilities(model, source, batch_size, distribute)
    return measure(p, source.labels, source.class_names)


def open_labelled(data, split="validation"):
    """The `Source` of `evaluate`, its labels as they are found.

    Where the source has no part of that name all of it is taken, which a line on the standard error
    stream says: a model may have been trained on most of it.
    """
    source = open_source(data, split)
    if source is None:
        source = open_source(data, "train")
        print(f"{source.name}: no {split} part, so all {source.count:,} images.", file=sys.stderr)
    return in_memory(source)


def labelled(model, source, class_names=None):
    """The same with the labels in the order of the model's outputs."""
    spec = require_spec(model, "evaluate", families=(ViTSpec, BiTSpec))
    if not spec.include_top:
        raise ValueError("`evaluate` needs a model with a classifier. Received: include_top=False")
    if class_names is None:
        source = with_labels_of(spec, source)
    else:
        source = source.relabel(read_class_names(class_names, spec.classes))
    check_classes(source, spec)
    if source.multi_label and spec.classifier_activation == "softmax":
        raise ValueError(
            f"The images of {source.name} are of several classes, and the model ends in a softmax, "
            "which is for one: train it with a sigmoid. Received: classifier_activation='softmax'"
        )
    return source


def probabilities(model, source, batch_size=64, distribute=None):
    """Probabilities `(n, K)` of all images of a source, in order; of one output, of two classes."""
    spec, engine = model.spec, distribute or Engine()
    targets = Targets(ONE_HOT if source.multi_label else INDEX, spec.classes)
    batches = evaluation_data(source, spec, batch_size, targets, engine)
    outputs = engine.outputs(model, batches.map(lambda image, target, mask: image))
    outputs = np.asarray(outputs, "float64")[: source.count]
    if spec.classifier_activation is None:
        activation = "sigmoid" if source.multi_label else activation_of_logits(spec)
        outputs = PROBABILITIES[activation](outputs)
    if spec.classes == 1 and not source.multi_label:  # of the second of two classes
        outputs = np.concatenate([1 - outputs, outputs], axis=1)
    return outputs


def _softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _sigmoid(logits):
    return np.exp(-np.logaddexp(0, -logits))  # which nothing overflows


PROBABILITIES = {"softmax": _softmax, "sigmoid": _sigmoid}


def measure(probabilities, labels, class_names):
    """The `Evaluation` of probabilities `(n, K)` and integer labels `(n,)`.

    Of labels `(n, K)` of 0 and 1 it is a `MultiLabelEvaluation`.
    """
    if np.ndim(labels) == 2:
        return multi_label.measure(probabilities, labels, class_names)
    p, labels = np.asarray(probabilities, "float64"), np.asarray(labels)
    classes = len(class_names)
    if p.shape != (len(labels), classes) or not len(labels):
        raise ValueError(
            f"There must be probabilities (n, {classes}) and labels (n,). Received: "
            f"{p.shape} and {labels.shape}"
        )
    predicted = p.argmax(axis=1)
    confusion = np.zeros((classes, classes), "int64")
    np.add.at(confusion, (labels, predicted), 1)
    counts, right = confusion.sum(axis=1), confusion.diagonal()
    rows = zip(class_names, counts, right, strict=True)
    per_class = tuple((n, int(c), float(r / c) if c else None) for n, c, r in rows)
    truth = p[np.arange(len(p)), labels]
    return Evaluation(
        count=len(labels),
        top1=float(np.mean(predicted == labels)),
        top5=_top5(p, labels) if classes > 5 else None,
        loss=float(np.mean(-np.log(np.maximum(truth, SMALLEST)))),
        calibration_error=calibration_error(p.max(axis=1), predicted == labels),
        per_class=per_class,
        confusion=confusion,
    )


def calibration_error(confidence, right, bins=BINS):
    """The mean distance between confidence and accuracy, over bins of equal width.

    Args:
        confidence: `(n,)`, the probability of the class that was chosen.
        right: Booleans `(n,)`.
        bins: Integer.

    Returns:
        Float between 0 and 1 (arXiv 1706.04599, equation 3).
    """
    places = np.clip(np.ceil(np.asarray(confidence) * bins).astype(int) - 1, 0, bins - 1)
    error = 0.0
    for place in range(bins):
        inside = places == place
        if inside.any():
            error += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    return float(error)


def real_accuracy(probabilities, real_labels):
    """Accuracy by ImageNet's reassessed labels (ReaL, arXiv 2006.07159).

    Args:
        probabilities: `(n, K)`, in the order of the reassessed labels.
        real_labels: n lists of classes; images with an empty one do not count.

    Returns:
        `(accuracy, images that counted)`.

    Raises:
        ValueError: if there is not one list an image, or all are empty.
    """
    predicted = np.asarray(probabilities).argmax(axis=1)
    if len(predicted) != len(real_labels):
        raise ValueError(
            "There must be one list of reassessed labels an image. Received: "
            f"{len(real_labels)} lists for {len(predicted)} images"
        )
    hits = [int(k) in labels for k, labels in zip(predicted, real_labels, strict=True) if labels]
    if not hits:
        raise ValueError("No image has a reassessed label.")
    return float(np.mean(hits)), len(hits)


def read_real_labels(path):
    """The lists of a `real.json`."""
    with open(path) as file:
        return json.load(file)


def published(model_name, weights):
    """The catalogue's entry of a published checkpoint, whose `top1` is in per cent.

    Raises:
        ValueError: if there are no such weights, or no top-1 was published.
    """
    from keras_vit.weights import catalogue

    entry = catalogue.find(model_name, weights)
    if entry.top1 is None:
        raise ValueError(
            f"No top-1 was published for these weights. Received: {model_name} {weights}"
        )
    return entry


def build_published(model_name, weights):
    """The model of a published checkpoint at its own resolution."""
    return getattr(keras_vit, model_name)(weights=weights)


def draw_confusion(evaluation, path):
    """Draws the confusion matrix, each row as shares of its class."""
    counts = evaluation.confusion
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    names = [name for name, _, _ in evaluation.per_class]
    side = min(max(4, 0.35 * len(names)), 16)
    figure = new_figure((side + 1, side))
    axis = figure.subplots()
    image = axis.imshow(shares, vmin=0, vmax=1, cmap="viridis")
    axis.set(xlabel="taken for", ylabel="class")
    if len(names) <= 50:
        axis.set_xticks(range(len(names)), names, rotation=90)
        axis.set_yticks(range(len(names)), names)
    figure.colorbar(image, label="share of the class")
    figure.savefig(path, dpi=120)


def _top5(p, labels):
    # Only the classes that are more likely stand before the right one; equal ones by number, as
    # `argmax` takes them.
    truth = p[np.arange(len(p)), labels][:, None]
    before = (p > truth) | ((p == truth) & (np.arange(p.shape[1]) < labels[:, None]))
    return float(np.mean(before.sum(axis=1) < 5))
