"""Windows of JPEGs: exact where they are decoded at their own size, and good averages else."""

import io

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("PIL")

from PIL import Image

from pipelines._tensorflow import tf
from pipelines.images.decoding import decode_crop
from pipelines.images.jpeg_window import window
from pipelines.images.orientation import has_plain_header

pytestmark = pytest.mark.skipif(
    keras.config.backend() != "tensorflow",
    reason="tf.data does this without the Keras backend: tested with TensorFlow's",
)


def waves(height, width):
    """Smooth colours, uint8, that say where they are."""
    rows, columns = np.mgrid[:height, :width] / 97
    planes = [np.sin(rows + 1), np.cos(columns), np.sin(rows - columns)]
    return (127.5 + 120 * np.stack(planes, -1)).astype("uint8")


def encoded(pixels, kind="JPEG", **options):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


SMALL = encoded(waves(75, 110), quality=85)
LARGE = encoded(waves(1100, 1900), quality=95)  # 2.09 megapixels


def test_the_window_at_its_own_size_is_exact():
    whole = tf.io.decode_jpeg(SMALL, 3).numpy()
    for top, left, height, width in [(0, 0, 75, 110), (7, 13, 40, 55), (74, 109, 1, 1)]:
        box = tf.constant([top, left, height, width])
        for least in (None, (4, 4)):  # too small an image to be reduced
            crop = window(tf.constant(SMALL), tf.constant([75, 110]), box, 3, least)
            np.testing.assert_array_equal(crop, whole[top : top + height, left : left + width])


@pytest.mark.parametrize(
    "least,ratio", [((224, 224), 4), ((120, 175), 8), ((500, 300), 2), ((501, 300), 1)]
)
def test_a_large_image_is_decoded_no_finer_than_needed(least, ratio):
    top, left, height, width = box = (40, 128, 1000, 1405)
    crop = window(tf.constant(LARGE), tf.constant([1100, 1900]), tf.constant(box), 3, least)
    assert crop.shape == (height // ratio, width // ratio, 3)
    # Against the mean of every square of ratio x ratio pixels.
    rows, columns = crop.shape[0] * ratio, crop.shape[1] * ratio
    cut = waves(1100, 1900)[top : top + rows, left : left + columns].astype(float)
    means = cut.reshape(crop.shape[0], ratio, crop.shape[1], ratio, 3).mean((1, 3))
    assert np.abs(crop.numpy() - means).mean() < 1.5


def test_plain_headers():
    exif = Image.Exif()
    exif[0x0112] = 6
    assert has_plain_header(tf.constant(SMALL))
    assert has_plain_header(tf.constant(SMALL[:2] + SMALL[20:]))  # without JFIF
    others = [
        encoded(waves(9, 8), exif=exif.tobytes()),
        encoded(waves(9, 8), "PNG"),
        b"",
        SMALL[:21],
        SMALL[1:],
    ]
    for data in others:
        assert not has_plain_header(tf.constant(data))


def test_decode_crop_reduces_only_where_it_is_told_what_is_needed():
    box = (0, 800, 1100, 1100)
    assert decode_crop(LARGE, box).shape == (1100, 1100, 3)
    assert decode_crop(LARGE, box, least=(224, 224)).shape == (275, 275, 3)
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side: the upright image is 1900 x 1100
    turned = encoded(waves(1100, 1900), quality=95, exif=exif.tobytes())
    crop = decode_crop(turned, (800, 0, 1100, 900), least=(224, 224)).numpy()
    assert crop.shape == (275, 225, 3)
    upright = np.rot90(waves(1100, 1900), -1)[800:1900, :900].astype(float)
    means = upright.reshape(275, 4, 225, 4, 3).mean((1, 3))
    assert np.abs(crop - means).mean() < 1.5
