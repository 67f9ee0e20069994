"""Streams that are too large for memory: shuffled by a buffer, and still to be gone on with."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from image_files import model_of, place, values, write_folder
from tf_data import once

import pipelines
from pipelines.collections.prepare import prepare
from pipelines.sources import open_source

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


def test_a_share_is_held_out_by_position(stream):
    train, validation = load(stream, validation=0.2, batch_size=1)
    used = {value for images, _ in read(train) for value in values(images)}
    held = {value for images, *_ in read(validation) for value in values(images)}
    assert len(train) == 15 and len(held) == 4 and used | held == set(VALUES)


def test_skipping_needs_random_access(stream):
    with pytest.raises(ValueError, match="needs random access.*larger than `cache`"):
        load(stream, on_bad_image="skip")
