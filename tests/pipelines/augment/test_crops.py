"""Boxes: bounds, distribution, and the windows that can be worked out by hand."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from pipelines._tensorflow import tf
from pipelines.augment import (
    Augment,
    CentralCrop,
    InceptionCrop,
    RandomCrop,
    Whole,
    bit_sizes,
)

SIZE = (224, 160)


def boxes(crop, height, width, count=3000, image_size=SIZE):
    """`(count, 4)` of top, left, height, width."""

    def draw(index):
        box = crop.box(height, width, tf.stack([index, tf.constant(5, "int64")]), image_size)
        return tf.ensure_shape(box, (4,))

    drawn = tf.data.Dataset.range(count).map(draw).batch(count).get_single_element()
    assert drawn.dtype == "int32"
    top, left, rows, columns = drawn = drawn.numpy().T
    assert min(top.min(), left.min()) >= 0 and min(rows.min(), columns.min()) > 0
    assert (top + rows).max() <= height and (left + columns).max() <= width
    return drawn


def numpy_inception(height, width, area, aspect, count):
    """Window sides by rejection: a shape, and then a height that the area allows."""
    rng = np.random.default_rng(0)
    sides = []
    while len(sides) < count:
        shape = rng.uniform(*aspect)
        low = np.sqrt(area[0] * height * width / shape)
        high = min(np.sqrt(area[1] * height * width / shape), height, width / shape)
        if low <= high:
            rows = rng.uniform(low, high)
            sides.append((rows, shape * rows))
    return np.array(sides).T


@pytest.mark.parametrize("area", [(0.05, 1.0), (0.08, 1.0), (0.3, 0.5)])
@pytest.mark.parametrize("height,width", [(375, 500), (640, 300)])
def test_inception_areas_and_aspects(height, width, area):
    aspect = (3 / 4, 4 / 3)
    top, left, rows, columns = boxes(InceptionCrop(area, aspect), height, width)
    shares, shapes = rows * columns / (height * width), columns / rows
    pixel = 2 / rows.min()  # sides are whole
    assert area[0] * (1 - pixel) <= shares.min() and shares.max() <= area[1] * (1 + pixel)
    assert aspect[0] * (1 - pixel) <= shapes.min() and shapes.max() <= aspect[1] * (1 + pixel)

    wanted_rows, wanted_columns = numpy_inception(height, width, area, aspect, 20_000)
    wanted_shares = wanted_rows * wanted_columns / (height * width)
    for found, wanted in ((shares, wanted_shares), (shapes, wanted_columns / wanted_rows)):
        # Kolmogorov and Smirnov's largest gap between two distributions; 0.001 is at 0.038.
        assert largest_gap(found, wanted) < 0.045
    for start, room in ((top, height - rows), (left, width - columns)):
        place = (start / np.maximum(room, 1))[room > 30]
        assert abs(place.mean() - 0.5) < 0.03 and abs((place < 0.25).mean() - 0.25) < 0.05


def largest_gap(left, right):
    points = np.concatenate([left, right])
    shares = [np.searchsorted(np.sort(s), points, side="right") / len(s) for s in (left, right)]
    return np.abs(shares[0] - shares[1]).max()


def test_inception_that_cannot_fit_is_the_whole_image():
    # Half of a strip ten times as long as it is wide has no such aspect.
    top, left, rows, columns = boxes(InceptionCrop((0.5, 1.0)), 40, 400, count=20)
    assert not top.any() and not left.any() and (rows == 40).all() and (columns == 400).all()


def test_random_crop_keeps_the_model_shape_at_every_place():
    # Until 300 x 500 covers 448 x 320 it grows by 448 / 300: the window is 384 x 274.3 of it.
    top, left, rows, columns = boxes(RandomCrop(384 / 448), 300, 500, image_size=(448, 320))
    assert set(rows) == {257} and set(columns) == {184}
    assert set(top) == set(range(300 - 257 + 1))
    # All places are equally likely.
    expected = 3000 / 44
    assert np.abs(np.bincount(top) - expected).max() < 5 * np.sqrt(expected)
    assert (left.min(), left.max()) == (0, 500 - 184)


def test_bit_crops_by_the_size_rule():
    assert bit_sizes(95, 96) == (160, 128) and bit_sizes(96, 96) == (448, 384)
    *_, rows, columns = boxes(RandomCrop("bit", squash=True), 50, 180, count=50)  # 9,000 pixels
    assert set(rows) == {40} and set(columns) == {144}
    *_, rows, columns = boxes(RandomCrop("bit", squash=True), 140, 280, count=50)
    assert set(rows) == {120} and set(columns) == {240}


def test_central_crop_is_in_the_middle():
    (box,) = boxes(CentralCrop(0.5, squash=True), 100, 61, count=1).T
    np.testing.assert_array_equal(box, [25, 15, 50, 30])
    (box,) = boxes(CentralCrop(0.5), 100, 61, count=1, image_size=(20, 20)).T
    np.testing.assert_array_equal(box, [35, 15, 30, 30])  # 61 / 2 to an even number


def test_whole_is_whole():
    (box,) = boxes(Whole(), 31, 47, count=1).T
    np.testing.assert_array_equal(box, [0, 0, 31, 47])


@pytest.mark.parametrize("crop", [InceptionCrop(), RandomCrop(), RandomCrop("bit", squash=True)])
def test_an_image_of_one_pixel(crop):
    for box in boxes(crop, 1, 1, count=5).T:
        np.testing.assert_array_equal(box, [0, 0, 1, 1])


def test_resize_then_crop_is_the_crop_of_the_resized():
    # What recipes do: 28 x 42 to 112 x 168, of which 96 x 144 are cut. The window is 24 x 36.
    image = np.repeat(np.repeat(np.arange(28 * 42).reshape(28, 42, 1) % 251, 4, 0), 4, 1)
    small = image[::4, ::4].astype("uint8")
    augment = Augment(crop=RandomCrop(96 / 112), flip=False)
    view = augment.view(tf.constant(small), tf.constant([3, 9]), (96, 144)).numpy()
    top, left, rows, columns = augment.boxes(28, 42, tf.constant([3, 9]), (96, 144)).numpy()
    assert (rows, columns) == (24, 36)
    resized = tf.image.resize(small, (112, 168)).numpy()
    cut = resized[4 * top : 4 * top + 96, 4 * left : 4 * left + 144]
    # Inside the window's border the pixels are the same; at it, the window has no neighbours.
    assert np.abs(view[2:-2, 2:-2] - cut[2:-2, 2:-2]).max() <= 0.5


@pytest.mark.parametrize(
    "make,name",
    [
        (lambda: InceptionCrop(area=(0.5, 0.1)), "area"),
        (lambda: InceptionCrop(area=(0.0, 1.0)), "area"),
        (lambda: InceptionCrop(area=(0.5, 1.2)), "area"),
        (lambda: InceptionCrop(aspect=(-1, 1)), "aspect"),
        (lambda: RandomCrop(0), "fraction"),
        (lambda: RandomCrop(1.1), "fraction"),
        (lambda: CentralCrop("small"), "fraction"),
    ],
)
def test_impossible_crops_are_refused(make, name):
    with pytest.raises(ValueError, match=f"Received: {name}="):
        make()
