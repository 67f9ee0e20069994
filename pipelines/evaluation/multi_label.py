"""How good a model is where an image may be of several classes: each class is a ranking."""

import dataclasses

import numpy as np

THRESHOLD = 0.5  # a probability above it says that the image is of the class
SMALLEST = 1e-12  # probabilities below count as this in the loss


@dataclasses.dataclass(frozen=True)
class MultiLabelEvaluation:
    """What was measured. There is no confusion matrix: no class is taken for another.

    Attributes:
        count: Integer, images.
        mean_average_precision: Float, the mean over the classes that have an image.
        hit_at_one: Float, share of images whose likeliest class is one of theirs.
        loss: Float, binary cross-entropy summed over the classes, the mean over the images.
        per_class: Tuple of `(name, images, average_precision, f1)`. The average precision of a
            class without images is None, and so is the F1 of one that was not predicted either.
    """

    count: int
    mean_average_precision: float
    hit_at_one: float
    loss: float
    per_class: tuple

    def to_dict(self):
        """Plain values."""
        return dataclasses.asdict(self)

    def summary(self):
        """One line of text."""
        return (
            f"{self.count:,} images of several classes: mAP {self.mean_average_precision:.2%}, "
            f"hit at one {self.hit_at_one:.2%}, loss {self.loss:.4f}"
        )

    def class_table(self):
        """One line of text a class under a line of titles, the worst average precision first."""
        rows = sorted(self.per_class, key=lambda row: (row[2] is None, row[2]))
        width = max(len(name) for name, *_ in rows)
        lines = [f"  {'':<{width}}  images        AP        F1"]
        lines += [f"  {n:<{width}}  {c:6d}  {_cell(ap)}  {_cell(f1)}" for n, c, ap, f1 in rows]
        return "\n".join(lines)


def measure(probabilities, labels, class_names):
    """The `MultiLabelEvaluation` of probabilities `(n, K)` and labels `(n, K)` of 0 and 1.

    Raises:
        ValueError: if shapes do not fit, or no image is of any class.
    """
    p, labels = np.asarray(probabilities, "float64"), np.asarray(labels) != 0
    if p.shape != labels.shape or p.shape[1:] != (len(class_names),) or not len(p):
        raise ValueError(
            f"There must be probabilities and labels (n, {len(class_names)}). Received: "
            f"{p.shape} and {labels.shape}"
        )
    if not labels.any():
        raise ValueError(f"No image is of any class. Received: {len(p)} images without a label")
    precisions = [average_precision(*column) for column in zip(p.T, labels.T, strict=True)]
    rows = zip(class_names, labels.sum(axis=0), precisions, _f1(p > THRESHOLD, labels), strict=True)
    right, wrong = np.maximum(p, SMALLEST), np.maximum(1 - p, SMALLEST)
    return MultiLabelEvaluation(
        count=len(p),
        mean_average_precision=float(np.mean([ap for ap in precisions if ap is not None])),
        hit_at_one=float(np.mean(labels[np.arange(len(p)), p.argmax(axis=1)])),
        loss=float(-np.log(np.where(labels, right, wrong)).sum(axis=1).mean()),
        per_class=tuple((name, int(count), ap, f1) for name, count, ap, f1 in rows),
    )


def average_precision(scores, relevant):
    """The mean precision over the places of the relevant images, the best score first.

    Images of equal score stand at one place, so that their order has no say.

    Args:
        scores: `(n,)`.
        relevant: Booleans `(n,)`.

    Returns:
        Float above 0 and at most 1, or None where no image is relevant.
    """
    if not np.any(relevant):
        return None
    order = np.argsort(-np.asarray(scores), kind="stable")
    hits = np.cumsum(np.asarray(relevant)[order])
    ends = np.flatnonzero(np.append(np.diff(np.asarray(scores)[order]) != 0, True))
    found = np.diff(hits[ends], prepend=0)  # relevant images at each place
    return float(np.sum(found * hits[ends] / (ends + 1)) / hits[-1])


def _f1(predicted, labels):
    """F1 of each class, from booleans `(n, K)`; None where nothing is there and nothing said."""
    both = (predicted & labels).sum(axis=0)
    either = predicted.sum(axis=0) + labels.sum(axis=0)
    return [float(2 * b / e) if e else None for b, e in zip(both, either, strict=True)]


def _cell(share):
    return f"{'-' if share is None else f'{share:.2%}':>8}"
