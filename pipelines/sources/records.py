"""TFRecord files of encoded images.

A record is a `tf.train.Example` with the features

    image/encoded       bytes: a whole image file
    image/class/label   int64: one index, or any number of them where an image may be of several
                        classes
    image/filename      bytes, optional: where the image came from

Beside the shards `PREFIX-00000-of-00016.tfrecord` lies `PREFIX.json`, which has `class_names`,
`counts` (images in each shard) and `multi_label`. Files without it are read too.
"""

import json
import os
import re
import struct

from pipelines._tensorflow import tf
from pipelines.sources.source import are_numbers, listed
from pipelines.sources.stream import RecordStream

IMAGE, LABEL, FILENAME = "image/encoded", "image/class/label", "image/filename"
SHARD = re.compile(r"-\d{5,}-of-\d{5,}\.tfrecord$")
_OPEN_FILES = 16  # read in turns, so that neighbours come from different shards


def records(pattern, class_names=None, image_key=IMAGE, label_key=LABEL, multi_label=None):
    """The stream of the images in TFRecord files.

    Args:
        pattern: A glob, such as `data/train-*`, or what comes before `-00000-of-00016.tfrecord`.
        class_names: Strings in the order of the labels. They contain the names that the index file
            has, whose labels become those of this list; where it has none, they name the labels 0,
            1, 2 and so on. None is what the index file says, or numbers up to the largest label.
        image_key: Feature of the encoded image.
        label_key: Feature of the label or labels.
        multi_label: Whether an image may be of several classes; None is what the index file says,
            or no.

    Raises:
        FileNotFoundError: if no file matches.
        ValueError: if shards are missing or damaged, or a class is not in `class_names`.
    """
    pattern = os.fspath(pattern)
    files = _files(pattern)
    index = read_index(files)
    several = index.get("multi_label", False) if multi_label is None else multi_label
    counts = index.get("counts") or [count_records(file) for file in files]
    if len(counts) != len(files):
        raise ValueError(
            f"The index of {pattern} speaks of {len(counts)} shards, and there are {len(files)}."
        )
    names = index.get("class_names")
    if not names or are_numbers(names):
        names = class_names or names or _numbers(files, label_key)
    parse = _parser(image_key, label_key, several, len(names))
    stream = RecordStream(
        name=f"records:{pattern}",
        class_names=tuple(map(str, names)),
        count=sum(counts),
        size=sum(tf.io.gfile.stat(file).length for file in files),
        records=lambda: _raw(files).map(parse, tf.data.AUTOTUNE, deterministic=True),
    )
    return stream.relabel(class_names or names)


def read_index(files):
    """What the file beside the shards says; an empty dict without one."""
    path = index_path(files[0])
    if not SHARD.search(files[0]) or not tf.io.gfile.exists(path):
        return {}
    with tf.io.gfile.GFile(path, "r") as file:
        return json.loads(file.read())


def index_path(shard):
    """The index file that belongs to a shard."""
    return SHARD.sub("", shard) + ".json"


def count_records(path):
    """How many records a TFRecord file has, from their lengths alone.

    Raises:
        ValueError: if the file is cut off.
    """
    size, count, place = tf.io.gfile.stat(path).length, 0, 0
    with tf.io.gfile.GFile(path, "rb") as file:
        while place < size:
            file.seek(place)
            head = file.read(8)
            # A record is its length (8 bytes), a checksum (4), its bytes and a checksum (4).
            place += 16 + (struct.unpack("<Q", head)[0] if len(head) == 8 else size)
            count += 1
    if place != size:
        raise ValueError(f"{path} is cut off in record {count - 1}.")
    return count


def shards_of(prefix):
    """The shards of a prefix that are there, in order; not those of `PREFIX-more`."""
    shard = re.compile(re.escape(os.path.basename(prefix)) + r"-\d+-of-\d+\.tfrecord")
    files = sorted(tf.io.gfile.glob(f"{prefix}-*-of-*.tfrecord"))
    return [file for file in files if shard.fullmatch(os.path.basename(file))]


def _files(pattern):
    if any(sign in pattern for sign in "*?["):
        files = [file for file in sorted(tf.io.gfile.glob(pattern)) if not file.endswith(".json")]
    else:
        files = shards_of(pattern)
    if not files and tf.io.gfile.exists(pattern) and not tf.io.gfile.isdir(pattern):
        files = [pattern]
    if not files:
        raise FileNotFoundError(f"No TFRecord file matches {pattern}")
    _check_complete(files, pattern)
    return files


def _check_complete(files, pattern):
    """Raises a ValueError if names say `-of-00016` and there are not 16."""
    prefixes = {SHARD.sub("", file) for file in files if SHARD.search(file)}
    for prefix in prefixes:
        shards = [file for file in files if SHARD.sub("", file) == prefix]
        wanted = int(shards[0].removesuffix(".tfrecord").rpartition("-of-")[2])
        if len(shards) != wanted:
            raise ValueError(
                f"{prefix} has {len(shards)} of its {wanted} shards in {pattern}: "
                f"{listed(os.path.basename(shard) for shard in shards)}."
            )


def _raw(files):
    shards = tf.data.Dataset.from_tensor_slices(files)
    return shards.interleave(
        tf.data.TFRecordDataset,
        cycle_length=min(len(files), _OPEN_FILES),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


def _parser(image_key, label_key, several, classes):
    label = tf.io.VarLenFeature(tf.int64) if several else tf.io.FixedLenFeature((), tf.int64)
    features = {image_key: tf.io.FixedLenFeature((), tf.string), label_key: label}

    def parse(record):
        example = tf.io.parse_single_example(record, features)
        label = example[label_key]
        if several:
            label = multi_hot(label.values, classes)
        return example[image_key], label

    return parse


def multi_hot(labels, classes):
    """Indices `(m,)` as float32 `(classes,)` of 0 and 1."""
    hot = tf.reduce_any(tf.one_hot(labels, classes, True, False, dtype=tf.bool), axis=0)
    return tf.ensure_shape(tf.cast(hot, "float32"), (classes,))


def _numbers(files, label_key):
    """Names 0, 1, 2 and so on, up to the largest label, for which all records are read."""
    feature = {label_key: tf.io.VarLenFeature(tf.int64)}
    labels = _raw(files).map(lambda r: tf.io.parse_single_example(r, feature)[label_key].values)
    largest = labels.reduce(
        tf.constant(-1, "int64"), lambda a, b: tf.reduce_max(tf.concat([[a], b], 0))
    )
    return tuple(map(str, range(int(largest) + 1)))
