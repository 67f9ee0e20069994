"""Mixed images against mixed labels, and the shares against their distribution."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from pipelines._tensorflow import tf
from pipelines.augment import Augment, mixing

BATCH, HEIGHT, WIDTH, CLASSES = 6, 30, 44, 7
# Each image has one value, so that its pixels tell whose they are.
VALUES = np.array([0, 250, 30, 200, 90, 140])
IMAGES = np.broadcast_to(VALUES[:, None, None, None], (BATCH, HEIGHT, WIDTH, 3)).astype("uint8")
LABELS = np.eye(CLASSES, dtype="float32")[[0, 1, 2, 3, 4, 5]]
PARTNERS = np.roll(np.arange(BATCH), 1)


def seed(number):
    return tf.constant([number, 21], "int64")


def own_shares(labels):
    """What is left of each image's own label, after checking that its partner has the rest."""
    labels = np.asarray(labels)
    assert labels.dtype == "float32"
    np.testing.assert_allclose(labels.sum(1), 1, atol=1e-6)
    own = labels[np.arange(BATCH), np.arange(BATCH)]
    np.testing.assert_allclose(labels[np.arange(BATCH), PARTNERS], 1 - own, atol=1e-6)
    return own


@pytest.mark.parametrize("each", [False, True])
def test_mixup_pixels_have_the_shares_of_the_labels(each):
    for number in range(5):
        images, labels = mixing.mixup(
            tf.constant(IMAGES), tf.constant(LABELS), seed(number), 1, each
        )
        own = own_shares(labels)
        assert images.dtype == "uint8"
        expected = own * VALUES + (1 - own) * VALUES[PARTNERS]
        assert np.abs(images.numpy() - expected[:, None, None, None]).max() <= 0.501
        assert (own >= 0.5).all() and (len(np.unique(own.round(5))) > 1) == each


@pytest.mark.parametrize("each", [False, True])
def test_cutmix_labels_count_the_pixels(each):
    for number in range(8):
        images, labels = mixing.cutmix(
            tf.constant(IMAGES), tf.constant(LABELS), seed(number), 1, each
        )
        own = own_shares(labels)
        kept = (images.numpy() == IMAGES)[..., 0]
        replaced = (images.numpy() == IMAGES[PARTNERS])[..., 0]
        assert (kept ^ replaced).all()
        np.testing.assert_allclose(kept.mean((1, 2)), own, atol=1e-6)
        rows, columns = replaced.any(2), replaced.any(1)
        assert (replaced == (rows[:, :, None] & columns[:, None, :])).all()
        assert ((replaced == replaced[0]).all()) != each


def test_cutmix_cuts_shares_of_the_area_drawn_from_beta():
    # With alpha 1 the area is uniform; where nothing hangs over the border it is the drawn one.
    images = tf.zeros((2000, 40, 60, 1), "uint8")
    marked = tf.reshape(tf.cast(tf.range(2000) % 2 * 255, "uint8"), (-1, 1, 1, 1)) + images
    mixed, _ = mixing.cutmix(marked, tf.zeros((2000, 1)), seed(1), 1.0, True)
    cut = (mixed.numpy() != marked.numpy())[..., 0]
    rows, columns = cut.any(2), cut.any(1)
    inside = ~(rows[:, 0] | rows[:, -1] | columns[:, 0] | columns[:, -1]) & rows.any(1)
    heights, widths = rows.sum(1)[inside], columns.sum(1)[inside]
    assert np.abs(heights / 40 - widths / 60).max() <= 1 / 40 + 1 / 60  # the image's aspect
    # Middles are uniform: one that hangs over is as likely as 1 - (1 - side)^2 on average 5/6 of
    # the uniform area u: 1 - E[(1 - sqrt u)^2] = 5/6.
    assert abs(inside.mean() - 1 / 6) < 0.05


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.8, 2.0])
def test_beta_has_its_moments(alpha):
    share = mixing.beta(20_000, seed(4), alpha).numpy().astype("float64")
    assert share.min() >= 0 and share.max() <= 1
    variance = 1 / (4 * (2 * alpha + 1))
    assert abs(share.mean() - 0.5) < 4 * np.sqrt(variance / 20_000)
    assert abs(share.var() - variance) < 0.03 * variance + 0.001


def test_a_tiny_alpha_mixes_nothing():
    share = mixing.beta(1000, seed(2), 1e-4).numpy()
    assert np.isfinite(share).all() and np.minimum(share, 1 - share).max() < 1e-3


@pytest.mark.parametrize("each", [False, True])
def test_with_both_each_is_taken_for_a_half(each):
    augment = Augment(mixup=1.0, cutmix=1.0, mix_each=each)
    run = tf.function(lambda number: augment.batch(IMAGES, tf.constant(LABELS), number))
    cut = []
    for number in range(60):
        images, labels = run(seed(number))
        own_shares(labels)
        images = images.numpy()
        spread = images.max((1, 2, 3)) != images.min((1, 2, 3))  # of more than one value
        cut.append(spread if each else [spread.any()])
    share, count = np.mean(cut), np.size(cut)
    # A cut of nothing or of all shows as one value, too: seldom.
    assert abs(share - 0.48) < 4 * np.sqrt(0.25 / count)


def test_float_images_stay_floats():
    images = tf.constant(IMAGES, "float32") / 127.5 - 1
    mixed, labels = mixing.mixup(images, tf.constant(LABELS), seed(3), 1.0)
    own = own_shares(labels)[0]
    expected = own * images + (1 - own) * tf.gather(images, PARTNERS)
    np.testing.assert_allclose(mixed, expected, atol=1e-6)


def test_label_smoothing_spreads_a_share_over_all_classes():
    _, labels = Augment(label_smoothing=0.14).batch(IMAGES, tf.constant(LABELS), seed(0))
    np.testing.assert_allclose(labels, LABELS * 0.86 + 0.02, atol=1e-6)


def test_label_smoothing_of_one_column_is_of_two_classes():
    column = np.arange(BATCH, dtype="float32")[:, None] % 2
    _, labels = Augment(label_smoothing=0.1).batch(IMAGES, tf.constant(column), seed(0))
    np.testing.assert_allclose(labels, np.where(column, 0.95, 0.05), atol=1e-6)


def test_integer_labels_are_refused():
    augment = Augment(mixup=0.2)
    assert augment.mixes and not Augment().mixes
    for labels in (tf.range(BATCH), tf.constant(LABELS, "int32")):
        with pytest.raises(ValueError, match="one-hot.*Received: labels of shape"):
            augment.batch(tf.constant(IMAGES), labels, seed(0))
