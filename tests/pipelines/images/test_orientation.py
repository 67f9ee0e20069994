"""The eight ways an image may lie in its file, against their definition in NumPy."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from tf_data import once

from pipelines._tensorflow import tf
from pipelines.images.orientation import jpeg_orientation, stored_box, turned

pytestmark = once

STORED = np.arange(5 * 7 * 2, dtype="uint8").reshape(5, 7, 2)
UPRIGHT = {  # from where the tag says that row 0 and column 0 of the stored image are
    1: STORED,  # top, left
    2: STORED[:, ::-1],  # top, right
    3: STORED[::-1, ::-1],  # bottom, right
    4: STORED[::-1],  # bottom, left
    5: STORED.swapaxes(0, 1),  # left, top
    6: np.rot90(STORED, -1),  # right, top
    7: np.rot90(STORED, 2).swapaxes(0, 1),  # right, bottom
    8: np.rot90(STORED, 1),  # left, bottom
}


@pytest.mark.parametrize("orientation", UPRIGHT)
def test_an_image_and_a_box_of_it_are_turned_alike(orientation):
    upright = UPRIGHT[orientation]
    np.testing.assert_array_equal(turned(tf.constant(STORED), tf.constant(orientation)), upright)
    for box in [(0, 1, 2, 3), (2, 0, 1, 5), (1, 2, 4, 2)]:
        top, left, height, width = stored_box(
            tf.constant(box), tf.constant(upright.shape[:2]), tf.constant(orientation)
        ).numpy()
        part = STORED[top : top + height, left : left + width]
        expected = upright[box[0] : box[0] + box[2], box[1] : box[1] + box[3]]
        np.testing.assert_array_equal(turned(part, tf.constant(orientation)), expected)


@pytest.mark.parametrize("start, end", [(b"MM", "big"), (b"II", "little")])
def test_the_tag_is_found_behind_others_in_both_byte_orders(start, end):
    def short(*numbers):
        return b"".join(number.to_bytes(2, end) for number in numbers)

    def long(number):
        return number.to_bytes(4, end)

    def entry(tag, kind, value):
        return short(tag, kind) + long(1) + short(value, 0)

    def orientation_in(*entries):
        block = start + short(42) + long(8) + short(len(entries)) + b"".join(entries) + long(0)
        return int(jpeg_orientation(b"\xff\xd8\xff\xe1" + bytes(2) + b"Exif\0\0" + block))

    width = entry(0x0100, 3, 640)
    assert orientation_in(width, entry(0x0112, 3, 6)) == 6
    assert orientation_in(width) == 1
    assert orientation_in(entry(0x0112, 3, 9)) == orientation_in(entry(0x0112, 3, 0)) == 1
    assert orientation_in(entry(0x0112, 4, 6)) == 1  # not a short number
    assert int(jpeg_orientation(b"\xff\xd8\xff\xdb" + bytes(20))) == 1  # no block at all
