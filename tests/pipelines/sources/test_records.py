"""TFRecord files, ours and others', as streams and in memory."""

import json

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from image_files import flat
from tf_data import once

from pipelines._tensorflow import tf
from pipelines.sources.records import count_records, records

pytestmark = once


def example(value, labels, image_key="image/encoded", label_key="image/class/label"):
    feature = {
        image_key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[flat(value)])),
        label_key: tf.train.Feature(int64_list=tf.train.Int64List(value=labels)),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def write_shards(prefix, shards, **keys):
    """`[[(value, labels), ...], ...]` as files of that prefix."""
    for i, rows in enumerate(shards):
        path = f"{prefix}-{i:05d}-of-{len(shards):05d}.tfrecord"
        with tf.io.TFRecordWriter(path) as writer:
            for value, labels in rows:
                writer.write(example(value, labels, **keys))


def test_files_of_others_are_counted_and_their_classes_numbered(tmp_path):
    write_shards(tmp_path / "train", [[(1, [0]), (2, [2])], [(3, [1])]])
    for pattern in (tmp_path / "train", tmp_path / "train-*", f"{tmp_path}/train-*-of-*"):
        stream = records(pattern)
        assert (stream.count, stream.class_names) == (3, ("0", "1", "2"))
    rows = list(stream.records().as_numpy_iterator())
    assert {(image, int(label)) for image, label in rows} == {
        (flat(1), 0),
        (flat(2), 2),
        (flat(3), 1),
    }
    assert rows == list(stream.records().as_numpy_iterator())  # in the same order
    memory = stream.in_memory()
    assert memory.labels.tolist() == [int(label) for _, label in rows]
    assert memory.read(tf.constant(2, "int64")).numpy() == rows[2][0]
    assert memory.origin(1).startswith("record 1 of records:")


def test_several_labels_and_other_keys(tmp_path):
    keys = {"image_key": "jpeg", "label_key": "tags"}
    write_shards(tmp_path / "x", [[(1, [0, 2]), (2, []), (3, [1, 1])]], **keys)
    stream = records(tmp_path / "x", multi_label=True, **keys)
    assert stream.multi_label
    labels = [label for _, label in stream.records().as_numpy_iterator()]
    np.testing.assert_array_equal(labels, [[1, 0, 1], [0, 0, 0], [0, 1, 0]])
    renamed = stream.relabel(("2", "0", "1", "more"))
    labels = [label for _, label in renamed.records().as_numpy_iterator()]
    np.testing.assert_array_equal(labels, [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]])


def test_a_part_of_a_stream_and_another_list_of_classes(tmp_path):
    write_shards(tmp_path / "x", [[(i, [i % 3]) for i in range(6)]])
    part = records(tmp_path / "x").take([4, 1, 2])
    assert part.count == 3
    assert [(d, int(y)) for d, y in part.records().as_numpy_iterator()] == [
        (flat(1), 1),
        (flat(2), 2),
        (flat(4), 1),
    ]
    other = part.relabel(("2", "1", "0"))
    assert [int(y) for _, y in other.records().as_numpy_iterator()] == [1, 0, 1]
    with pytest.raises(ValueError, match="not among the 2 .*'2'"):
        part.relabel(("0", "1"))
    with pytest.raises(ValueError, match="more than one class: '1'"):
        part.relabel(("0", "1", "2", "1"))


def test_labels_of_no_class_are_refused_wherever_they_are_met(tmp_path):
    write_shards(tmp_path / "x", [[(1, [1]), (2, [3])]])
    stream = records(tmp_path / "x", class_names=("a", "b", "c"))
    with pytest.raises(ValueError, match=r"Label 3 at index 1 .* classes are 0\.\.2.* start at 1"):
        stream.in_memory()
    with pytest.raises(tf.errors.InvalidArgumentError, match="Label 3"):
        list(stream.relabel(("c", "b", "a")).records())


def test_names_of_the_index_file_are_found_in_another_list(tmp_path):
    write_shards(tmp_path / "x", [[(i, [i]) for i in range(3)]])
    index = tmp_path / "x.json"
    for own, labels in [(["a", "b", "c"], [3, 2, 0]), (["0", "1", "2"], [0, 1, 2])]:
        index.write_text(json.dumps({"class_names": own, "counts": [3]}))
        stream = records(tmp_path / "x", class_names=("c", "more", "b", "a"))
        assert stream.class_names == ("c", "more", "b", "a")
        assert [int(label) for _, label in stream.records().as_numpy_iterator()] == labels
    index.write_text(json.dumps({"class_names": ["a", "b", "c"]}))
    with pytest.raises(ValueError, match="not among the 2 .*: 'c'"):
        records(tmp_path / "x", class_names=("a", "b"))


def test_a_prefix_is_not_the_beginning_of_another(tmp_path):
    write_shards(tmp_path / "pets", [[(1, [0])], [(2, [1])]])
    write_shards(tmp_path / "pets-val", [[(3, [0])], [(4, [1])], [(5, [1])]])
    assert records(tmp_path / "pets").count == 2
    assert records(tmp_path / "pets-val").count == 3
    assert records(f"{tmp_path}/pets*").count == 5


def test_missing_and_damaged_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="No TFRecord file matches"):
        records(tmp_path / "x")
    write_shards(tmp_path / "x", [[(1, [0])], [(2, [1])], [(3, [0])]])
    (tmp_path / "x-00001-of-00003.tfrecord").unlink()
    with pytest.raises(ValueError, match="2 of its 3 shards .*'x-00000-of-00003.tfrecord'"):
        records(tmp_path / "x-*")
    path = tmp_path / "x-00000-of-00003.tfrecord"
    whole = path.read_bytes()
    assert count_records(str(path)) == 1
    for end in (len(whole) - 1, 5):
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match="is cut off in record 0"):
            count_records(str(path))
