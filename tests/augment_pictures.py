"""Pictures for the tests: rectangular, and of every value."""

import numpy as np

HEIGHT, WIDTH = 40, 56


def noise(channels=3, height=HEIGHT, width=WIDTH, low=0, high=256, seed=0):
    """Independent pixels, uint8."""
    return np.random.default_rng(seed).integers(low, high, (height, width, channels), "uint8")


def ramps(height=HEIGHT, width=WIDTH):
    """Values that grow down, to the right, and along the diagonal; none reaches 0 or 255."""
    rows, columns = np.mgrid[:height, :width]
    planes = [20 + 4 * rows, 10 + 3 * columns, 30 + 2 * (rows + columns)]
    return np.stack(planes, axis=-1).astype("uint8")
