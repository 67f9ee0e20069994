"""Moved pixels against NumPy that asks every pixel of the result where it comes from."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from augment_pictures import noise, ramps

from pipelines._tensorflow import tf
from pipelines.augment import geometry

GREY = 128


def gathered(picture, source_row, source_column):
    """The pixels at rows and columns, `(H, W)` each, to the nearest; grey outside."""
    height, width = picture.shape[:2]
    rows, columns = np.rint(source_row).astype(int), np.rint(source_column).astype(int)
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    result = np.full(picture.shape, GREY, "uint8")
    result[inside] = picture[rows[inside], columns[inside]]
    return result


def grid(picture):
    rows, columns = np.mgrid[: picture.shape[0], : picture.shape[1]]
    return rows.astype(float), columns.astype(float)


def run(operation, picture, amount):
    result = operation(tf.constant(picture), amount)
    assert result.dtype == "uint8" and result.shape == picture.shape
    return result.numpy()


@pytest.mark.parametrize("pixels", [0, 1, 13, -7, 100])
def test_translate_moves_left_and_up(pixels):
    picture = noise()
    rows, columns = grid(picture)
    np.testing.assert_array_equal(
        run(geometry.translate_x, picture, pixels), gathered(picture, rows, columns + pixels)
    )
    np.testing.assert_array_equal(
        run(geometry.translate_y, picture, pixels), gathered(picture, rows + pixels, columns)
    )


@pytest.mark.parametrize("level", [0.0, 0.123, -0.317, 0.6])
def test_shear_moves_each_row_or_column_by_its_distance_from_the_first(level):
    picture = noise()
    rows, columns = grid(picture)
    np.testing.assert_array_equal(
        run(geometry.shear_x, picture, level), gathered(picture, rows, columns + level * rows)
    )
    np.testing.assert_array_equal(
        run(geometry.shear_y, picture, level), gathered(picture, rows + level * columns, columns)
    )


@pytest.mark.parametrize("degrees", [-60.0, -11.0, 7.5, 30.0])
def test_rotate_turns_about_the_middle(degrees):
    picture = noise()
    rows, columns = grid(picture)
    y, x = rows - (picture.shape[0] - 1) / 2, columns - (picture.shape[1] - 1) / 2
    angle = np.deg2rad(degrees)
    source_row = np.sin(angle) * x + np.cos(angle) * y + (picture.shape[0] - 1) / 2
    source_column = np.cos(angle) * x - np.sin(angle) * y + (picture.shape[1] - 1) / 2
    expected = gathered(picture, source_row, source_column)
    # Where a source lies half-way between two pixels, rounding may go either way.
    assert (run(geometry.rotate, picture, degrees) != expected).any(-1).mean() < 0.002


def test_rotate_goes_counter_clockwise():
    picture = ramps(31, 31)
    np.testing.assert_array_equal(run(geometry.rotate, picture, 90.0), np.rot90(picture))


def test_rotate_by_nothing_is_the_picture():
    np.testing.assert_array_equal(run(geometry.rotate, noise(channels=1), 0.0), noise(channels=1))


def test_corners_are_grey():
    turned = run(geometry.rotate, np.zeros((41, 41, 3), "uint8"), 45.0)
    assert (turned[[0, 0, -1, -1], [0, -1, 0, -1]] == GREY).all()
    assert (turned[20] == 0).all()  # the middle row is longer than the side of the square
