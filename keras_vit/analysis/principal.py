"""Principal components, with a sign that does not depend on the library that finds them."""

import numpy as np


def principal_components(points, count):
    """The directions in which points spread most.

    Args:
        points: Array `(points, dimensions)`; their mean is taken away first.
        count: Integer, how many components at most.

    Returns:
        float64 directions `(count, dimensions)` of length 1, whose entry of largest magnitude is
        positive, and the share `(count,)` of the variance on each.
    """
    points = np.asarray(points, "float64")
    _, spreads, directions = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    largest = np.abs(directions).argmax(axis=1, keepdims=True)
    directions = directions * np.sign(np.take_along_axis(directions, largest, axis=1))
    variances = spreads**2
    shares = variances / max(float(variances.sum()), np.finfo("float64").tiny)
    return directions[:count], shares[:count]
