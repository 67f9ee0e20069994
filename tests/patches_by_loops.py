"""Patches and their colors in plain NumPy, one at a time: what the targets must be."""

import numpy as np


def by_loops(pixels, patch_size, patch_value):
    """[patch_value(patch) of every patch, row by row] of every image."""
    height, width = patch_size
    return [
        [
            patch_value(image[top : top + height, left : left + width])
            for top in range(0, image.shape[0], height)
            for left in range(0, image.shape[1], width)
        ]
        for image in pixels
    ]


def color_class(color):
    """3 bits a channel, of whole-number averages in 0..255."""
    number = 0
    for value in color:
        number = 8 * number + min(int(8 * value / 255), 7)
    return number


def cell(patch, row, column, side):
    """The mean of one of side x side cells, which may cut through pixels."""

    def overlaps(size, index):  # in whole parts of a pixel, of which there are `side`
        first, last = index * size, (index + 1) * size
        return [max(0, min(last, side * (i + 1)) - max(first, side * i)) for i in range(size)]

    weights = np.outer(overlaps(patch.shape[0], row), overlaps(patch.shape[1], column))
    return np.einsum("hw,hwc->c", weights, patch.astype("float64")) / weights.sum()
