"""Which operations are drawn, and that each has the amount that its magnitude stands for."""

import math

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from augment_pictures import noise, ramps

from pipelines._tensorflow import tf
from pipelines.augment import colors, geometry, patches
from pipelines.augment.randaugment import operations, randaugment

# What a magnitude does, by hand from the tables of AutoAugment's policies; level is magnitude / 10.
# Degrees, bits, threshold, factor, shear, pixels, half of Cutout, what SolarizeAdd adds.
AMOUNTS = {
    0: (0, 0, 0, 0.1, 0, 0, 0, 0),
    10: (30, 4, 256, 1.9, 0.3, 100, 40, 110),
    15: (45, 6, 384, 2.8, 0.45, 150, 60, 165),
    20: (60, 8, 512, 3.7, 0.6, 200, 80, 220),
}
SEED = tf.constant([4, 5])


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("magnitude", AMOUNTS)
def test_amounts_of_a_magnitude(magnitude, sign):
    picture = tf.constant(noise(height=260, width=230))
    degrees, bits, threshold, factor, shear, pixels, half, added = AMOUNTS[magnitude]
    expected = {
        "auto_contrast": colors.auto_contrast(picture),
        "equalize": colors.equalize(picture),
        "invert": colors.invert(picture),
        "rotate": geometry.rotate(picture, sign * degrees),
        "posterize": colors.posterize(picture, bits),
        "solarize": colors.solarize(picture, threshold),
        "color": colors.color(picture, factor),
        "contrast": colors.contrast(picture, factor),
        "brightness": colors.brightness(picture, factor),
        "sharpness": colors.sharpness(picture, factor),
        "shear_x": geometry.shear_x(picture, sign * shear),
        "shear_y": geometry.shear_y(picture, sign * shear),
        "translate_x": geometry.translate_x(picture, sign * pixels),
        "translate_y": geometry.translate_y(picture, sign * pixels),
        "cutout": patches.cutout(picture, half, SEED),
        "solarize_add": colors.solarize_add(picture, added),
    }
    found = operations(picture, magnitude, sign, SEED)
    assert list(found) == list(expected)
    for name, function in found.items():
        differing = (function().numpy() != expected[name].numpy()).any(-1).mean()
        # The product of a float32 sign moves single pixels of what is turned.
        assert differing < 0.005, name


def test_magnitude_0_is_no_rest():
    picture = ramps()
    found = {name: f().numpy() for name, f in operations(tf.constant(picture), 0).items()}
    for name in ("invert", "solarize"):
        np.testing.assert_array_equal(found[name], 255 - picture)
    np.testing.assert_array_equal(found["brightness"], (picture * 0.1 + 1e-6).astype("uint8"))
    for name in ("rotate", "shear_x", "shear_y", "translate_x", "translate_y", "cutout"):
        np.testing.assert_array_equal(found[name], picture)


def test_every_operation_is_as_likely_as_any_other():
    # At magnitude 10 the 16 operations give 15 pictures (solarize leaves it), and both directions
    # of five more; the picture tells which operation it was.
    picture = tf.constant(noise(height=130, width=120, low=20, high=200))
    outcomes = {}
    for sign in (1.0, -1.0):
        for name, function in operations(picture, 10, sign, SEED).items():
            outcomes[name, sign] = function().numpy().tobytes()
    names = {picture: key for key, picture in outcomes.items()}
    count = 1600
    seeds = tf.stack([tf.range(count), tf.fill((count,), 3)], 1)
    drawn = tf.data.Dataset.from_tensor_slices(seeds)
    drawn = drawn.map(lambda seed: randaugment(picture, seed, 1, 10), num_parallel_calls=2)
    counts = dict.fromkeys(names.values(), 0)
    others = 0  # cutouts, each at its own place
    for result in drawn.as_numpy_iterator():
        key = names.get(result.tobytes())
        if key is None or key[0] == "cutout":
            others += 1
        else:
            counts[key] += 1
    probability = 1 / 16
    slack = 4.5 * math.sqrt(count * probability * (1 - probability))
    assert abs(others - count * probability) < slack
    moving = {"rotate", "shear_x", "shear_y", "translate_x", "translate_y"}
    for name in {name for name, _ in counts} - {"cutout"}:
        both = [counts[key] for key in counts if key[0] == name]
        assert abs(sum(both) - count * probability) < slack, name
        assert len(both) == (2 if name in moving else 1)
        if name in moving:  # either direction
            assert abs(both[0] - both[1]) < 4.5 * math.sqrt(count * probability), name


def test_layers_follow_one_another():
    picture = tf.constant(noise())
    singles = {f().numpy().tobytes() for f in operations(picture, 10, 1.0, SEED, 224).values()}
    results = [randaugment(picture, tf.constant([i, 3]), 3, 10, 224).numpy() for i in range(8)]
    assert len({result.tobytes() for result in results}) == 8
    assert sum(result.tobytes() in singles for result in results) <= 2


def test_amounts_can_follow_the_size_of_the_image():
    picture = tf.constant(noise(height=56, width=28))
    found = operations(picture, 10, 1.0, SEED, size=224)
    expected = geometry.translate_x(picture, 12.5)  # 100 px of 224, of 28
    np.testing.assert_array_equal(found["translate_x"](), expected)
    np.testing.assert_array_equal(found["translate_y"](), geometry.translate_y(picture, 25.0))
    np.testing.assert_array_equal(found["cutout"](), patches.cutout(picture, 5, SEED))


def test_one_channel_works_and_two_are_refused():
    picture = tf.constant(noise(channels=1))
    for name, function in operations(picture, 10, 1.0, SEED).items():
        assert function().shape == picture.shape, name
    with pytest.raises(ValueError, match="1 or 3 channels.*Received: image of shape"):
        randaugment(tf.constant(noise(channels=2)), SEED, 2, 10)
