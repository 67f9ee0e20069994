"""Images that cannot be decoded: named, or skipped and counted, and never passed over."""

import re

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from image_files import flat, model_of, values, write, write_folder
from tf_data import once

import pipelines
from pipelines._tensorflow import tf
from pipelines.augment import Augment
from pipelines.feed import bad_images
from pipelines.sources import open_source
from pipelines.sources.records import IMAGE, LABEL

pytestmark = once

MODEL = model_of(2)


@pytest.fixture
def photos(tmp_path):
    """Ten images, of which three cannot be decoded."""
    root = write_folder(tmp_path, {"a": range(1, 7), "b": range(11, 15)})
    write(tmp_path / "a" / "001.png", b"")
    write(tmp_path / "a" / "004.png", flat(5)[:40])
    write(tmp_path / "b" / "003.png", b"<html>")
    return root


def load(root, batch_size=2, **arguments):
    arguments = {"validation": False, **arguments}
    return pipelines.load(root, model=MODEL, batch_size=batch_size, **arguments)


def read(dataset):
    return [value for images, *_ in dataset.as_numpy_iterator() for value in values(images)]


def test_training_stops_at_a_bad_image_and_names_it(photos):
    for batch_size in (1, 10):  # alone in its batch; in the only batch
        train, _ = load(photos, batch_size)
        message = r"ValueError: .*(a/001.png is empty|a/004.png cannot|b/003.png is not an image)"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            read(train)


@pytest.mark.parametrize("number", [0, 5])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_evaluation_stops_too_where_the_first_or_last_image_is_bad(tmp_path, number, batch_size):
    good = write_folder(tmp_path / "good", {"a": range(6), "b": range(6)})
    root = write_folder(tmp_path / "bad", {"a": range(3), "b": range(3)})
    write(tmp_path / "bad" / "ab"[number // 3] / f"{number % 3:03d}.png", b"no image")
    _, validation = load(good, batch_size, validation=root)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"bad/{'ab'[number // 3]}/00.*png"):
        read(validation)


def test_a_stream_names_what_it_can(tmp_path):
    from pipelines.collections.prepare import prepare

    root = write_folder(tmp_path / "photos", {"a": range(3), "b": range(3)})
    prepare(open_source(root), tmp_path / "r", 2, progress=False)
    for shard in tmp_path.glob("r-*.tfrecord"):
        records = [data.replace(b"IHDR", b"IHDX") for data in _records(shard)]
        with tf.io.TFRecordWriter(str(shard)) as writer:
            for data in records:
                writer.write(data)
    train, validation = load(f"records:{tmp_path}/r", cache=0, validation=f"records:{tmp_path}/r")
    for dataset in (train, validation):
        with pytest.raises(tf.errors.InvalidArgumentError, match="record . of records:.*damaged"):
            read(dataset)


def _records(path):
    return list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())


@pytest.mark.parametrize("cache", [0, 2**31])
def test_damaged_records_are_an_error_and_not_the_end(tmp_path, cache):
    from pipelines.collections.prepare import prepare

    root = write_folder(tmp_path / "photos", {"a": range(3), "b": range(3)})
    prepare(open_source(root), tmp_path / "r", 1, progress=False)
    shard, text = tmp_path / "r-00000-of-00001.tfrecord", f"records:{tmp_path}/r"
    whole = shard.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for data, message in [
        (bytes(flipped), "corrupted record"),
        (whole[: len(whole) * 2 // 3], "corrupted|truncated|ends before its 6|and holds"),
    ]:
        shard.write_bytes(data)
        with pytest.raises((tf.errors.OpError, ValueError), match=message):
            read(load(text, cache=cache)[0])
    if not cache:
        with pytest.raises((tf.errors.OpError, ValueError), match=message):
            read(load(text, cache=cache, validation=text)[1])


def test_a_missing_file_is_named(tmp_path):
    root = write_folder(tmp_path, {"a": [1, 2], "b": [3, 4]})
    train, _ = load(root)
    (tmp_path / "a" / "001.png").unlink()
    with pytest.raises(tf.errors.InvalidArgumentError, match="a/001.png cannot be read: .*No such"):
        read(train)


def test_an_error_of_the_augmentation_is_not_blamed_on_the_image(tmp_path):
    root = write_folder(tmp_path, {"a": [1, 2], "b": [3, 4]})

    class Failing(Augment):
        def finish(self, crop, seed, image_size):
            image = super().finish(crop, seed, image_size)
            small = tf.debugging.assert_less(image, tf.constant(3, "uint8"))
            with tf.control_dependencies([small] if small is not None else []):
                return tf.identity(image)

    train, _ = load(root, augment=Failing(crop="squash"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="png can be decoded, but then: "):
        read(train)


def test_skipped_images_are_counted_listed_and_gone(photos):
    with pytest.warns(UserWarning, match=r"Skipped 3 of 10 .*001.png is empty .*004.png .*003.png"):
        train, _ = load(photos, on_bad_image="skip")
    assert len(train) == 3  # of seven images
    for _ in range(3):
        epoch = read(train)
        assert len(set(epoch)) == 6 and set(epoch) <= {1, 3, 4, 6, 11, 12, 13}
    with pytest.warns(UserWarning, match="Skipped 3 of 10"):
        _, validation = load(photos, validation=photos, on_bad_image="skip")
    assert sorted(read(validation)) == [0, 1, 3, 4, 6, 11, 12, 13]  # and one row of padding


def write_records(path, images):
    """A file of `(label, bytes)`, whatever these are."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for label, data in images:
            features = {
                IMAGE: tf.train.Feature(bytes_list=tf.train.BytesList(value=[data])),
                LABEL: tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


@pytest.fixture
def stream(tmp_path):
    """The records of ten images, of which the numbers 1, 4 and 9 cannot be decoded."""
    images = [(number % 2, flat(number + 1)) for number in range(10)]
    images[1], images[4], images[9] = (1, b""), (0, flat(5)[:40]), (1, b"<html>")
    write_records(tmp_path / "r", images)
    return f"records:{tmp_path}/r"


@pytest.mark.parametrize("cache", [0, 2**31])
def test_skipped_records_are_counted_listed_and_gone(stream, cache):
    listed = (
        "Skipped 3 of 10 .*: record 1 of records:.* is empty .* record 4 of .* "
        "record 9 of .* is not an image"
    )
    with pytest.warns(UserWarning, match=listed):
        train, _ = load(stream, 7, on_bad_image="skip", cache=cache)
    for _ in range(2):
        assert sorted(read(train)) == [1, 3, 4, 6, 7, 8, 9]
    with pytest.warns(UserWarning, match=listed):
        _, validation = load(stream, 2, validation=stream, on_bad_image="skip", cache=cache)
    assert read(validation) == [1, 3, 4, 6, 7, 8, 9, 0]  # and one row of padding


def test_records_keep_their_numbers_in_parts(stream):
    with pytest.warns(UserWarning) as warned:
        train, validation = load(stream, 1, validation=0.4, on_bad_image="skip", cache=0)
    named = [set(re.findall(r"record (\d) of", str(warning.message))) for warning in warned]
    assert set().union(*named) == {"1", "4", "9"} and sum(map(len, named)) == 3
    assert sorted(read(train) + read(validation)) == [1, 3, 4, 6, 7, 8, 9]


def test_records_that_cannot_be_decoded_are_named_when_they_are_met(stream):
    _, validation = load(stream, 2, validation=stream, cache=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="record 1 of records:.* is empty"):
        read(validation)


def test_no_record_left_is_an_error(tmp_path):
    write_records(tmp_path / "r", [(0, b"one"), (1, b"")])
    with pytest.raises(ValueError, match="No image of .* can be decoded. record 0 .* record 1 "):
        load(f"records:{tmp_path}/r", 1, on_bad_image="skip", cache=0)


@pytest.mark.parametrize("cache", [0, 2**31])
def test_a_damaged_file_is_not_skipped(stream, tmp_path, cache):
    whole = bytearray((tmp_path / "r").read_bytes())
    whole[len(whole) // 2] ^= 1
    (tmp_path / "r").write_bytes(whole)
    with pytest.raises(ValueError, match="records:.* cannot be read: corrupted record"):
        load(stream, on_bad_image="skip", cache=cache, class_names=["a", "b"])


def test_nothing_left_is_an_error(tmp_path):
    root = write_folder(tmp_path, {"a": [1], "b": [2]})
    for name in "ab":
        write(tmp_path / name / "000.png", b"")
    with pytest.raises(ValueError, match="No image of .* can be decoded. .*a/000.png is empty"):
        load(root, on_bad_image="skip")


def test_all_bad_images_are_found(photos):
    source = open_source(photos)
    seen = []
    bad = bad_images.find(source, progress=seen.append)
    assert [image.number for image in bad] == [1, 4, 9]
    assert [source.key(image.number) for image in bad] == ["a/001.png", "a/004.png", "b/003.png"]
    assert len(seen) == 7
    pixels = np.zeros((2, 3, 3, 1), "uint8")
    assert bad_images.find(open_source((pixels, np.array([0, 1])))) == []
