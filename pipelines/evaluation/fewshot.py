"""Few-shot accuracy: least squares from frozen features to the classes, in closed form.

The metric by which the paper compares pre-trained models cheaply (arXiv 2010.11929, section 4.1 and
figure 4), with the constants of its code. It is NumPy throughout, so that equal features give equal
results on every backend.
"""

import dataclasses
import warnings

import numpy as np

from keras_vit.layers import checks

SHOTS = (1, 5, 10, 25)
SEEDS = (0, 1, 2)
L2 = 2.0**10
BIAS = 100.0  # the constant feature: so large that the regularisation hardly touches its weights
EPSILON = 1e-5  # added to the deviations


@dataclasses.dataclass(frozen=True)
class Solution:
    """A linear classifier of whitened features.

    Attributes:
        mean: `(D,)`, of the support's features.
        deviation: `(D,)`, theirs, plus `EPSILON`.
        weights: `(D + 1, K)`; the last row belongs to the constant feature.
    """

    mean: np.ndarray
    deviation: np.ndarray
    weights: np.ndarray

    def scores(self, features):
        """`(n, K)` of features `(n, D)`; the largest is the predicted class."""
        return _whitened(features, self.mean, self.deviation) @ self.weights


def solve(features, labels, classes, l2=L2, dtype="float64"):
    """The ridge regression from features to -1 and 1, one column a class.

    Args:
        features: `(n, D)`, of the support.
        labels: Integers `(n,)`.
        classes: Integer K.
        l2: Float, lambda.
        dtype: `"float64"`, or `"float32"` as the paper's code computes.

    Returns:
        A `Solution`.

    Raises:
        ValueError: if features or labels are not of this form.
    """
    features, labels = _checked(features, labels, classes, dtype)
    mean, deviation = features.mean(axis=0), features.std(axis=0) + np.asarray(EPSILON, dtype)
    x = _whitened(features, mean, deviation)  # (n, D + 1)
    y = np.full((len(labels), classes), -1.0, dtype)
    y[np.arange(len(labels)), labels] = 1.0
    # Two forms of one solution: the eigenvalues of the smaller of the two products.
    if x.shape[0] >= x.shape[1]:
        values, q = np.linalg.eigh(x.T @ x)
        weights = (q / (values + l2)) @ (q.T @ (x.T @ y))
    else:
        values, q = np.linalg.eigh(x @ x.T)
        weights = x.T @ ((q / (values + l2)) @ (q.T @ y))
    return Solution(mean, deviation, weights.astype(dtype))


def choose(labels, shots, seed, classes):
    """Which `shots` examples of each class a seed draws, as in the paper's code.

    A class with fewer examples gives all that it has, with a warning.

    Args:
        labels: Integers `(n,)`.
        shots: Integer.
        seed: Integer.
        classes: Integer K.

    Returns:
        Integers, class after class. Fewer shots of the same seed are the first of more shots.

    Raises:
        ValueError: if a class has no example, or `shots` is not positive.
    """
    checks.positive_integer(shots, "shots")
    rng = np.random.default_rng(seed)
    labels = np.asarray(labels)
    chosen = [rng.permutation(np.flatnonzero(labels == k))[:shots] for k in range(classes)]
    counts = np.array([len(indices) for indices in chosen])
    if not counts.all():
        raise ValueError(
            "Each class needs at least one example. Received: no example of the classes "
            f"{np.flatnonzero(counts == 0).tolist()[:20]} (of {classes})"
        )
    if (counts < shots).any():
        few = np.flatnonzero(counts < shots).tolist()
        warnings.warn(
            f"{len(few)} classes have fewer than {shots} examples and give all that they have: "
            f"{few[:20]}",
            stacklevel=2,
        )
    return np.concatenate(chosen)


def few_shot_accuracy(
    train_features,
    train_labels,
    test_features,
    test_labels,
    classes=None,
    *,
    shots=SHOTS,
    seeds=SEEDS,
    l2=L2,
    dtype="float64",
):
    """Accuracies on the whole test set, for each number of shots and each seed.

    Args:
        train_features: `(n, D)`, which the examples are drawn from.
        train_labels: Integers `(n,)`.
        test_features: `(m, D)`.
        test_labels: Integers `(m,)`.
        classes: Integer K; None is one more than the largest label of both.
        shots: Integers.
        seeds: Integers.
        l2: Float, lambda.
        dtype: `"float64"`, or `"float32"` as the paper's code computes.

    Returns:
        `{shots: (accuracy of each seed)}`, from 0 to 1.

    Raises:
        ValueError: if features and labels do not fit together, or a class has no example.

    Example:

    >>> accuracies = few_shot_accuracy(train_x, train_y, test_x, test_y)
    >>> np.mean(accuracies[5])
    """
    if not len(shots) or not len(seeds):
        raise ValueError(
            "There must be a number of shots and a seed, at least one of each. "
            f"Received: shots={shots!r}, seeds={seeds!r}"
        )
    if classes is None:
        classes = int(max(np.max(train_labels), np.max(test_labels))) + 1
    train_features, train_labels = _checked(train_features, train_labels, classes, dtype)
    test_features, test_labels = _checked(test_features, test_labels, classes, dtype)
    results = {}
    for count in shots:
        accuracies = []
        for seed in seeds:
            indices = choose(train_labels, count, seed, classes)
            solution = solve(train_features[indices], train_labels[indices], classes, l2, dtype)
            predicted = np.argmax(solution.scores(test_features), axis=1)
            accuracies.append(float(np.mean(predicted == test_labels)))
        results[count] = tuple(accuracies)
    return results


def table(accuracies):
    """The accuracies as lines of text: mean and standard deviation over the seeds, in per cent."""
    lines = ["shots   top-1 %   sd"]
    for shots, values in accuracies.items():
        lines.append(f"{shots:5d}  {100 * np.mean(values):8.2f}  {100 * np.std(values):4.2f}")
    return "\n".join(lines)


def _whitened(features, mean, deviation):
    """(n, D) -> (n, D + 1), the last column constant."""
    x = (np.asarray(features, mean.dtype) - mean) / deviation
    return np.concatenate([x, np.full((len(x), 1), BIAS, mean.dtype)], axis=1)


def _checked(features, labels, classes, dtype):
    features, labels = np.asarray(features, dtype), np.asarray(labels)
    if features.ndim != 2 or labels.shape != features.shape[:1] or not len(labels):
        raise ValueError(
            "There must be features (n, D) and one label each (n,). Received: "
            f"features of shape {features.shape}, labels of shape {labels.shape}"
        )
    if not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"Labels must be integers from 0 to {classes - 1}. "
            f"Received: labels of {labels.dtype} from {labels.min()} to {labels.max()}"
        )
    if not np.isfinite(features).all():
        raise ValueError(
            "Features must be finite. Received: "
            f"{int(np.sum(~np.isfinite(features)))} that are not, of {features.size}"
        )
    return features, labels
