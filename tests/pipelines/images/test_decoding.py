"""Files of every kind, written by Pillow, against the rule worked out in NumPy."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from image_files import encoded
from PIL import Image
from tf_data import once

from pipelines._tensorflow import tf
from pipelines.images.decoding import decode, decode_crop, read_image, to_channels

pytestmark = once

# No two rows, columns or channels alike, in blocks of 16 that a JPEG keeps: any turn shows.
BLOCKS = np.array(
    [[[200, 30, 30], [30, 180, 60], [40, 60, 220]], [[90, 90, 20], [240, 240, 240], [20, 130, 160]]]
)
PICTURE = np.kron(BLOCKS, np.ones((16, 16, 1))).astype("uint8")  # 32 high, 48 wide
RGB = Image.fromarray(PICTURE)
JPEG = {"quality": 95, "subsampling": 0}

UPRIGHT = {  # what to do with the stored array, from the definition of the EXIF tag
    1: lambda x: x,
    2: lambda x: x[:, ::-1],
    3: lambda x: np.rot90(x, 2),
    4: lambda x: x[::-1],
    5: lambda x: x.transpose(1, 0, 2),
    6: lambda x: np.rot90(x, -1),
    7: lambda x: np.rot90(x, 2).transpose(1, 0, 2),
    8: lambda x: np.rot90(x, 1),
}


def exif(orientation):
    block = Image.Exif()
    block[0x0112] = orientation
    return block


def assert_close(actual, expected, levels):
    assert actual.dtype == "uint8" and actual.shape == expected.shape
    assert np.abs(actual.astype(float) - expected).max() <= levels


def luma(rgb):
    return (rgb @ np.array([0.299, 0.587, 0.114]))[..., None]


# --- What is in the file ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, options, levels",
    [
        ("PNG", {}, 0),
        ("BMP", {}, 0),
        ("TIFF", {}, 0),
        ("WEBP", {"lossless": True}, 0),
        ("JPEG", JPEG, 4),
        ("JPEG", JPEG | {"progressive": True}, 4),
    ],
)
@pytest.mark.parametrize("channels", [3, 1])
def test_colours(kind, options, levels, channels):
    pixels = decode(encoded(PICTURE, kind, **options), channels).numpy()
    assert_close(pixels, PICTURE if channels == 3 else luma(PICTURE), levels + (channels == 1))


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
@pytest.mark.parametrize("channels", [3, 1])
def test_grey(kind, channels):
    pixels = decode(encoded(RGB.convert("L"), kind), channels).numpy()
    expected = np.asarray(RGB.convert("L"))[..., None]
    assert_close(pixels, np.broadcast_to(expected, (32, 48, channels)), 3 if kind == "JPEG" else 0)


def without_adobe_marker(jpeg):
    place = jpeg.index(b"Adobe") - 4
    length = int.from_bytes(jpeg[place + 2 : place + 4], "big")
    return jpeg[:place] + jpeg[place + 2 + length :]


def as_luma_and_colours(inks):
    """YCCK: the inks C, M, Y as a JPEG usually stores colours, said by the marker's last byte."""
    rgb = Image.fromarray(np.asarray(inks)[..., :3])
    stored = np.dstack([255 - np.asarray(rgb.convert("YCbCr")), np.asarray(inks)[..., 3]])
    data = bytearray(encoded(Image.fromarray(stored, "CMYK"), "JPEG", **JPEG))
    data[data.index(b"Adobe") + 11] = 2
    return bytes(data)


@pytest.mark.parametrize("channels", [3, 1])
def test_inks(channels):
    inks = RGB.convert("CMYK")
    plain = encoded(inks, "JPEG", **JPEG)
    for data in (plain, without_adobe_marker(plain), as_luma_and_colours(inks)):
        assert_close(decode(data, channels).numpy(), PICTURE if channels == 3 else luma(PICTURE), 6)


def test_palettes_and_few_bits():
    for colours, options in [(6, {}), (4, {"bits": 2})]:
        image = RGB.quantize(colours)
        assert_close(decode(encoded(image, **options)).numpy(), np.asarray(image.convert("RGB")), 0)
    assert_close(decode(encoded(RGB.quantize(6), "BMP")).numpy(), PICTURE, 0)
    dithered = RGB.convert("1")
    expected = np.repeat(np.asarray(dithered)[..., None] * 255, 3, -1)
    assert_close(decode(encoded(dithered)).numpy(), expected, 0)


@pytest.mark.parametrize("values", [np.linspace(0, 65535, 48), np.full(48, 1000.0)])
def test_sixteen_bits_are_scaled_and_not_cut(values):
    deep = np.broadcast_to(values.astype("uint16"), (32, 48))
    for channels in (3, 1):
        pixels = decode(encoded(deep), channels).numpy()
        assert_close(pixels, np.broadcast_to(deep[..., None] / 257, (32, 48, channels)), 0.5)


def test_transparent_pixels_are_laid_on_white():
    alpha = np.broadcast_to(np.linspace(0, 255, 48).astype("uint8"), (32, 48))
    rgba = np.dstack([PICTURE, alpha])
    share = alpha[..., None] / 255.0
    expected = PICTURE * share + 255 * (1 - share)
    for kind, options in [("PNG", {}), ("WEBP", {"lossless": True, "exact": True}), ("TIFF", {})]:
        assert_close(decode(encoded(rgba, kind, **options)).numpy(), expected, 0.51)
        assert_close(decode(encoded(rgba, kind, **options), 1).numpy(), luma(expected), 1)
    grey = np.dstack([PICTURE[..., 0], alpha])
    assert_close(decode(encoded(grey)).numpy(), np.repeat(expected[..., :1], 3, -1), 0.51)


def test_transparent_colours_of_a_palette_are_white():
    image = RGB.quantize(6)
    table = bytes([0, 255, 255, 255, 255, 255])
    hidden = np.asarray(image)[..., None] == 0
    expected = np.where(hidden, 255, np.asarray(image.convert("RGB")))
    for data in (encoded(image, transparency=table), encoded(image, "GIF", transparency=0)):
        assert_close(decode(data).numpy(), expected, 0)
    key = tuple(int(value) for value in BLOCKS[0, 1])
    expected = np.where((PICTURE == key).all(-1, keepdims=True), 255, PICTURE)
    assert_close(decode(encoded(RGB, transparency=key)).numpy(), expected, 0)


@pytest.mark.parametrize("kind, options", [("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {})])
def test_the_first_of_several_frames(kind, options):
    frames = {"save_all": True, "append_images": [RGB.rotate(180), RGB.rotate(180)]}
    assert_close(decode(encoded(RGB, kind, **frames, **options)).numpy(), PICTURE, 0)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied(orientation):
    for kind, levels in [("JPEG", 4), ("PNG", 0), ("TIFF", 0)]:
        data = encoded(PICTURE, kind, exif=exif(orientation), **(JPEG if levels else {}))
        assert_close(decode(data).numpy(), UPRIGHT[orientation](PICTURE), levels)
    data = encoded(PICTURE, "WEBP", lossless=True, exif=exif(orientation))
    assert_close(decode(data).numpy(), UPRIGHT[orientation](PICTURE), 0)


def test_orientation_of_either_byte_order_and_of_damaged_blocks():
    entry = b"\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00"
    good = b"MM\x00\x2a\x00\x00\x00\x08\x00\x01" + entry + b"\0\0\0\0"
    assert decode(encoded(PICTURE, "JPEG", exif=b"Exif\0\0" + good)).shape == (48, 32, 3)
    for damaged in (
        good[:9],
        good[:18],
        b"MM\x00\x2a\x7f\xff\xff\xff",
        good.replace(b"\6", b"\x4d"),
    ):
        data = encoded(PICTURE, "JPEG", exif=b"Exif\0\0" + damaged)
        assert decode(data).shape == (32, 48, 3), damaged


def test_one_static_shape_in_a_data_set():
    files = [encoded(PICTURE, kind) for kind in ("PNG", "JPEG", "GIF", "BMP", "WEBP")]
    dataset = tf.data.Dataset.from_tensor_slices(files).map(lambda data: decode(data, 3))
    assert dataset.element_spec.shape == (None, None, 3)
    for pixels in dataset:
        assert np.abs(pixels.numpy() - PICTURE.astype(float)).mean() < 4


# --- A part of it -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", [1, 3, 5, 6, 7, 8])
def test_a_crop_is_a_part_of_the_upright_image(kind, orientation):
    options = {"quality": 90} if kind == "JPEG" else {"lossless": True}
    data = encoded(PICTURE, kind, exif=exif(orientation), **options)
    whole = decode(data).numpy()
    height, width = whole.shape[:2]
    for top, left, bottom, right in [(0, 0, 1, 1), (3, 5, 20, 27), (15, 16, height, width)]:
        crop = decode_crop(data, [top, left, bottom - top, right - left]).numpy()
        assert_close(crop, whole[top:bottom, left:right], 0)


def test_a_crop_may_be_drawn_from_the_upright_size():
    seen = []

    def lower_right(size):
        seen.append(size.numpy().tolist())
        return tf.concat([size // 2, size // 2], 0)

    data = encoded(PICTURE, "JPEG", exif=exif(6), **JPEG)
    crop = decode_crop(data, lower_right, 1).numpy()
    assert seen == [[48, 32]]
    assert_close(crop, luma(np.rot90(PICTURE, -1)[24:, 16:]), 6)


# --- What cannot be read ------------------------------------------------------------------------


def cut(data):
    return data[: len(data) * 2 // 3]


NOISE = np.random.default_rng(0).integers(0, 256, (40, 60, 3), "uint8")


@pytest.mark.parametrize(
    "data, reason",
    [
        (b"", r"is empty \(0 bytes\)"),
        (cut(encoded(NOISE, "JPEG")), "cannot be decoded: .*[Tt]runcated"),
        (cut(encoded(NOISE, "PNG")), "cannot be decoded: .*truncated"),
        (cut(encoded(NOISE, "GIF")), "cannot be decoded: "),
        (b"<html><body>404</body></html>", "is not an image: it starts with b'<html><body>'"),
        (b"\0" * 4096, "is not an image"),
        (b"\xff\xd8\xff" + b"\0" * 100, "cannot be decoded: its header is damaged"),
        (b"\x89PNG\r\n\x1a\n\0\0", "cannot be decoded: its header is damaged"),
        (b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X", "is not an image"),
    ],
)
def test_a_bad_file_is_named_with_the_reason(tmp_path, data, reason):
    path = tmp_path / "hé llo #1%.jpg"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"#1%.jpg {reason}"):
        read_image(path)


def test_bytes_behind_the_end_do_no_harm(tmp_path):
    (tmp_path / "1.jpg").write_bytes(encoded(PICTURE, "JPEG", **JPEG) + b"\0" * 64)
    assert_close(read_image(tmp_path / "1.jpg"), PICTURE, 4)


def test_a_large_comment_does_no_harm():
    from PIL.PngImagePlugin import PngInfo

    info = PngInfo()
    info.add_text("comment", "x" * 2_000_000, zip=True)
    assert_close(decode(encoded(PICTURE, pnginfo=info)).numpy(), PICTURE, 0)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF"])
def test_too_many_pixels_are_refused_with_the_way_to_allow_them(tmp_path, monkeypatch, kind):
    (tmp_path / "map").write_bytes(encoded(PICTURE, kind))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 32 * 48 // 2 - 1)
    with pytest.raises(ValueError, match="map is refused for its size .*1536.*MAX_IMAGE_PIXELS"):
        read_image(tmp_path / "map")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert read_image(tmp_path / "map").shape == (32, 48, 3)


def test_a_float_image_is_refused(tmp_path):
    (tmp_path / "depth.tif").write_bytes(encoded(np.zeros((4, 5), "float32"), "TIFF"))
    with pytest.raises(ValueError, match="its mode 'F' has no range"):
        read_image(tmp_path / "depth.tif")


def test_missing_files_and_other_channels_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no.jpg"):
        read_image(tmp_path / "no.jpg")
    with pytest.raises(ValueError, match="Received: channels=4"):
        decode(b"", 4)


def test_channels_of_decoded_images():
    grey = to_channels(PICTURE, 1).numpy()
    assert_close(grey, luma(PICTURE), 0.51)
    assert (to_channels(grey, 3).numpy() == np.repeat(grey, 3, -1)).all()
    assert to_channels(PICTURE, 3) is PICTURE
    with pytest.raises(ValueError, match="Received: images of 3 channels"):
        to_channels(PICTURE, 5)
