"""Streams that are too large for memory: shuffled by a buffer, and still to be gone on with."""

import dataclasses

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow")

from image_files import model_of, place, values, write_folder
from tf_data import once

import pipelines
from pipelines._tensorflow import tf
from pipelines.collections.prepare import prepare
from pipelines.sources import open_source
from pipelines.sources.splits import fraction, hold_out

pytestmark = once

MODEL = model_of(2)
VALUES = list(range(1, 12)) + list(range(21, 29))  # 19 images


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    root = tmp_path_factory.mktemp("stream")
    photos = write_folder(root / "photos", {"a": range(1, 12), "b": range(21, 29)})
    prepare(open_source(photos), root / "r", 3, progress=False)
    return f"records:{root}/r"


def load(stream, **arguments):
    arguments = {"batch_size": 4, "validation": False, "cache": 0, **arguments}
    return pipelines.load(stream, model=MODEL, **arguments)


def read(dataset, batches=None):
    dataset = dataset if batches is None else dataset.take(batches)
    return [tuple(batch) for batch in dataset.as_numpy_iterator()]


def test_an_epoch_has_no_image_twice_and_labels_fit(stream):
    train, _ = load(stream)
    assert len(train) == 4
    epochs = [read(train) for _ in range(2)]
    orders = []
    for epoch in epochs:
        for images, labels in epoch:
            assert labels.tolist() == [int(value > 20) for value in values(images)]
        orders.append([value for images, _ in epoch for value in values(images)])
        assert len(set(orders[-1])) == 16
    assert orders[0] != orders[1]


@pytest.mark.parametrize("seed", [0, 7])
def test_the_users_global_seed_has_no_say(stream, seed):
    order = [values(x) for x, _ in read(load(stream)[0])]
    keras.utils.set_random_seed(seed)
    assert [values(x) for x, _ in read(load(stream)[0])] == order


@pytest.mark.parametrize("step", [3, 9])
def test_a_run_goes_on_at_any_step(stream, step):
    whole = read(load(stream, repeat=True, augment="none")[0], 12)
    rest = read(load(stream, repeat=True, augment="none", start_step=step)[0], 12 - step)
    for batch, expected in zip(rest, whole[step:], strict=True):
        np.testing.assert_array_equal(batch[0], expected[0])
        np.testing.assert_array_equal(batch[1], expected[1])


def test_hosts_see_their_rows_of_what_one_host_sees(stream):
    whole = [values(x) for x, _ in read(load(stream)[0])]
    parts = [
        [values(x) for x, _ in read(load(stream, distribute=place(host, 2))[0])]
        for host in range(2)
    ]
    assert [first + second for first, second in zip(*parts, strict=True)] == whole


def test_evaluation_has_every_record_once(stream):
    for hosts in (1, 2):
        seen = []
        for host in range(hosts):
            _, data = load(stream, validation=stream, distribute=place(host, hosts))
            batches = read(data)
            assert len(batches) == len(data) == 5
            for images, labels, mask in batches:
                there = np.array(values(images))[mask > 0]
                assert labels[mask > 0].tolist() == (there > 20).astype(int).tolist()
                seen += there.tolist()
        assert sorted(seen) == VALUES


def all_values(dataset):
    return sorted(value for images, *_ in read(dataset) for value in values(images))


@pytest.mark.parametrize("arguments", [{}, {"fraction": 0.5}, {"split_seed": 3}])
def test_parts_are_by_class_and_those_of_records_in_memory(stream, arguments):
    arguments = {"batch_size": 1, "validation": 0.2, **arguments}
    train, validation = (all_values(part) for part in load(stream, **arguments))
    assert (train, validation) == tuple(
        all_values(part) for part in load(stream, cache=2**31, **arguments)
    )
    # A fifth of 11 and of 8 images; then all of the others or half of them, 9 / 2 being rounded to
    # the even number.
    assert np.bincount(np.array(validation) > 20).tolist() == [2, 2]
    rest = [4, 3] if "fraction" in arguments else [9, 6]
    assert np.bincount(np.array(train) > 20).tolist() == rest
    assert not set(train) & set(validation) and set(train + validation) <= set(VALUES)


def test_hosts_hold_out_the_same_and_share_the_rest(stream):
    whole = [all_values(part) for part in load(stream, batch_size=3, validation=0.2)]
    parts = [load(stream, batch_size=3, validation=0.2, distribute=place(i, 3)) for i in range(3)]
    train = sorted(value for part, _ in parts for value in all_values(part))
    held = sorted(value for _, part in parts for value in all_values(part) if value)
    assert train == whole[0] and held == [value for value in whole[1] if value]


def test_labels_are_read_once_and_without_decoding(stream):
    opened, read = open_source(stream), []

    def unreadable(image, label):
        counted = tf.numpy_function(lambda label: read.append(label) or label, [label], tf.int64)
        return tf.constant(b"no image"), tf.ensure_shape(counted, ())

    whole = dataclasses.replace(opened, records=lambda: opened.records().map(unreadable))
    parts = [fraction(part, 0.5) for part in hold_out(whole, 0.2)]
    assert [part.count for part in parts] == [7, 2]
    assert sorted(read) == [0] * 11 + [1] * 8


def test_a_label_of_no_class_is_found_before_training(stream):
    opened = dataclasses.replace(open_source(stream), class_names=("a",))
    with pytest.raises(ValueError, match="Label 1 at index .* is of no class"):
        hold_out(opened, 0.2)


def test_images_of_the_same_classes_are_held_out_together(tmp_path):
    labels = np.repeat([[1, 0, 0], [1, 1, 0], [0, 0, 1]], [10, 20, 5], axis=0).astype("float32")
    source = open_source((np.zeros((35, 5, 7, 3), "uint8"), labels))
    prepare(source, tmp_path / "r", 2, progress=False)
    stream = open_source(f"records:{tmp_path}/r")
    train, held = hold_out(stream, 0.2)
    for part, count in [(train, [8, 16, 4]), (held, [2, 4, 1])]:
        found = np.array([label for (label,) in part.each(lambda image, label: (label,))])
        sets, counts = np.unique(found, axis=0, return_counts=True)
        assert sets.tolist() == [[0, 0, 1], [1, 0, 0], [1, 1, 0]]
        assert counts.tolist() == [count[2], count[0], count[1]]
    assert sorted(train.groups.tolist()) == sorted(stream.groups[train.numbers].tolist())


def test_parts_of_parts_and_new_names_keep_numbers_and_labels(stream):
    opened = open_source(stream)
    part = opened.take(range(3, 15)).take([0, 2, 11]).relabel(["b", "a"])
    expected = opened.in_memory().take([3, 5, 14]).relabel(["b", "a"])
    assert part.count == 3 and part.numbers.tolist() == [3, 5, 14]
    assert [part.key(i) for i in range(3)] == [expected.key(i) for i in range(3)]
    assert part.origin(2) == expected.origin(2) == f"record 14 of {stream}"
    found = list(part.each(lambda image, label: (image, label)))
    assert [int(label) for _, label in found] == expected.labels.tolist()
    assert [image for image, _ in found] == [expected.read(i).numpy() for i in range(3)]
