"""Presets are AugReg's; the same seed gives the same pixels; nothing leaves its range."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from augment_pictures import noise

from pipelines._tensorflow import tf
from pipelines.augment import PRESETS, Augment, InceptionCrop, augmentation

SIZE = (24, 36)
# Scaled: pixels that are meant for 224 x 224 would leave little of these pictures.
EVERYTHING = Augment(randaugment=(2, 15), randaugment_size=224, erasing=0.5)


def views(augment, pictures, parallel=None, first=0):
    """A view of each picture under its own seed, in order."""
    numbers = tf.range(first, first + len(pictures), dtype="int64")
    seeds = tf.stack([tf.fill(numbers.shape, tf.constant(7, "int64")), numbers], 1)
    dataset = tf.data.Dataset.from_tensor_slices((pictures, seeds))
    dataset = dataset.map(
        lambda picture, seed: augment.view(picture, seed, SIZE), num_parallel_calls=parallel
    )
    assert dataset.element_spec.shape == (*SIZE, 3) and dataset.element_spec.dtype == "uint8"
    return np.stack(list(dataset.as_numpy_iterator()))


def test_the_presets_of_augreg():
    # Layers, magnitude and alpha of Mixup: arXiv 2106.10270.
    expected = {
        "none": (None, 0),
        "light1": ((2, 0), 0),
        "light2": ((2, 10), 0.2),
        "medium1": ((2, 15), 0.2),
        "medium2": ((2, 15), 0.5),
        "strong1": ((2, 20), 0.5),
        "strong2": ((2, 20), 0.8),
    }
    for name, (layers, alpha) in expected.items():
        augment = augmentation(name)
        assert augment is PRESETS[name]
        assert (augment.randaugment, augment.mixup) == (layers, alpha)
        assert augment.flip and augment.crop == "inception" and not augment.mix_each
        assert augment.mixes == (alpha > 0)


def test_an_unknown_preset_lists_the_right_ones():
    with pytest.raises(
        ValueError, match="'none', 'light1', 'light2'.*'strong2'.*Received: .*'heavy'"
    ):
        augmentation("heavy")
    for wrong in (3, ["none"]):
        with pytest.raises(ValueError, match="Received: augment="):
            augmentation(wrong)


def test_none_only_resizes_and_an_augment_is_itself():
    picture = tf.constant(noise(height=24, width=36))
    np.testing.assert_array_equal(
        augmentation(None).view(picture, tf.constant([1, 2]), SIZE), picture
    )
    assert augmentation(EVERYTHING) is EVERYTHING


def test_the_same_seed_gives_the_same_pixels_on_any_number_of_workers():
    picture = np.broadcast_to(noise(), (24, *noise().shape))
    alone = views(EVERYTHING, picture)
    np.testing.assert_array_equal(views(EVERYTHING, picture, parallel=4), alone)
    np.testing.assert_array_equal(views(EVERYTHING, picture, parallel=tf.data.AUTOTUNE), alone)
    # Eagerly, and from the middle on, as after a resume.
    seed = tf.constant([7, 5], "int64")
    np.testing.assert_array_equal(EVERYTHING.view(picture[0], seed, SIZE), alone[5])
    np.testing.assert_array_equal(views(EVERYTHING, picture[:4], first=20), alone[20:])
    # 24 equal pictures under 24 seeds are 24 pictures.
    assert len(np.unique(alone.reshape(24, -1), axis=0)) == 24


def test_boxes_and_finish_are_view():
    picture = noise(height=61, width=83)
    for number in range(6):
        seed = tf.constant([number, 2])
        top, left, height, width = EVERYTHING.boxes(61, 83, seed, SIZE).numpy()
        crop = tf.constant(picture[top : top + height, left : left + width])
        np.testing.assert_array_equal(
            EVERYTHING.finish(crop, seed, SIZE), EVERYTHING.view(tf.constant(picture), seed, SIZE)
        )
    assert EVERYTHING.fuses


def test_half_are_flipped_whatever_their_crop():
    augment, count = Augment(crop=InceptionCrop((0.05, 0.3))), 800
    picture = np.zeros((50, 80, 3), "uint8")
    picture[...] = 3 * np.arange(80)[:, None]  # brighter to the right
    results = views(augment, np.broadcast_to(picture, (count, *picture.shape))).astype(int)
    flipped = results[:, 0, 0, 0] > results[:, 0, -1, 0]
    assert abs(flipped.mean() - 0.5) < 4 * np.sqrt(0.25 / count)
    middles = results.mean((1, 2, 3))
    assert abs(np.corrcoef(flipped, middles)[0, 1]) < 4 / np.sqrt(count)
    assert not (np.diff(views(dataclasses.replace(augment, flip=False), picture[None])) != 0).any()


def test_the_order_is_flip_operations_erasing():
    # Invert is the only operation that gives 255 from 0; noise is laid over it, not inverted.
    black = tf.zeros((*SIZE, 3), "uint8")
    erased = Augment(crop="squash", flip=False, erasing=1.0)
    both = Augment(crop="squash", flip=False, erasing=1.0, randaugment=(1, 15))
    for number in range(10):
        seed = tf.constant([number, 0])
        noisy = erased.image(black, seed).numpy()
        inside = noisy.any(-1)
        np.testing.assert_array_equal(both.image(black, seed).numpy()[inside], noisy[inside])


@pytest.mark.parametrize("preset", PRESETS)
def test_constant_pictures_stay_in_range_and_grey(preset):
    pictures = np.stack([np.full((40, 30, 3), value, "uint8") for value in (0, 128, 255)] * 2)
    results = views(augmentation(preset), pictures)
    # The dtype keeps the range; equal channels stay equal whatever the operation.
    np.testing.assert_array_equal(results, np.broadcast_to(results[..., :1], results.shape))


def test_mixing_follows_its_seed():
    images = tf.constant(np.stack([noise(seed=i) for i in range(4)]))
    labels = tf.eye(4)
    augment = Augment(mixup=0.5, cutmix=1.0)
    run = [augment.batch(images, labels, tf.constant([1, n])) for n in (1, 1, 2)]
    np.testing.assert_array_equal(run[0][0], run[1][0])
    np.testing.assert_array_equal(run[0][1], run[1][1])
    assert (run[0][0].numpy() != run[2][0].numpy()).any()


def test_an_augment_is_a_value():
    assert Augment(randaugment=[2, 10]) == Augment(randaugment=(2, 10))
    assert hash(Augment()) == hash(PRESETS["none"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"crop": "big"},
        {"crop": (0.05, 1.0)},
        {"flip": 0.5},
        {"randaugment": 2},
        {"randaugment": (0, 10)},
        {"randaugment": (2, -1)},
        {"randaugment_size": 0},
        {"mixup": -0.1},
        {"cutmix": "1"},
        {"erasing": 1.5},
        {"label_smoothing": True},
        {"engine": "torch"},
        {"grid_mask": True},
    ],
)
def test_wrong_values_are_refused(wrong):
    with pytest.raises(ValueError, match="Received: "):
        Augment(**wrong)
