"""Writes a source as TFRecord shards, once, for fast reading from anywhere."""

import hashlib
import json
import os
import uuid

import keras
import numpy as np

from keras_vit.layers import checks
from pipelines._tensorflow import tf
from pipelines.feed import bad_images
from pipelines.images.decoding import decode
from pipelines.sources import records
from pipelines.sources.source import Source, listed

JPEG_QUALITY = 95


def prepare(source, out, shards, max_side=512, seed=0, on_bad_image="raise", progress=True):
    """Writes the images of a source as TFRecord shards, in a random order.

    Images whose longer side is above `max_side` are shrunk to it, upright, and encoded again, as
    JPEG of quality 95 where they were JPEG and else as PNG; the bytes of others stay as they are.
    Each shard appears when it is whole. A run that was interrupted goes on at the first shard that
    is missing. The records and the index file are described in `pipelines.sources.records`.

    Args:
        source: A `Source`; or a `RecordStream`, whose order is kept.
        out: What comes before `-00000-of-00016.tfrecord` in the files' names; may be `gs://`.
        shards: Integer, how many files.
        max_side: Integer, in pixels; None shrinks nothing.
        seed: Integer, of the order.
        on_bad_image: `"raise"` or `"skip"`.
        progress: Whether to show a progress bar.

    Returns:
        List of the `BadImage`s that were skipped.

    Raises:
        ValueError: if an image cannot be decoded, or `out` has shards that were made otherwise.
    """
    checks.positive_integer(shards, "shards")
    checks.one_of(on_bad_image, "on_bad_image", ("raise", "skip"))
    if max_side is not None:
        checks.positive_integer(max_side, "max_side")
    out, shards = os.fspath(out), min(shards, source.count)
    plan = _begin(out, source, shards, max_side, seed)
    if plan is None:
        return []
    order = np.random.default_rng(seed).permutation(source.count)
    if not isinstance(source, Source):
        order = np.arange(source.count)
    bar = keras.utils.Progbar(source.count, unit_name="image", verbose=int(progress))
    counts, bad = [], []
    for shard, numbers in enumerate(np.array_split(order, shards)):
        path = shard_path(out, shard, shards)
        if not tf.io.gfile.exists(path):
            bad += _write(path, source, numbers, max_side, on_bad_image)
        counts.append(records.count_records(path))
        bar.add(len(numbers))
    if not sum(counts):
        raise ValueError(f"No image of {source.name} can be decoded. {bad_images.first_ones(bad)}")
    _finish(out, source, counts, plan)
    return bad


def shard_path(out, shard, shards):
    """The name of a shard, such as `train-00003-of-00016.tfrecord`."""
    return f"{out}-{shard:05d}-of-{shards:05d}.tfrecord"


def _begin(out, source, shards, max_side, seed):
    """Notes beside the shards how they are made, and refuses to add to others.

    Returns:
        What the index file will say of it; None where everything has been written already.
    """
    labels = source.labels.tobytes() if isinstance(source, Source) else b""
    facts = [source.name, source.count, list(source.class_names), shards, max_side, seed]
    plan = hashlib.blake2b(json.dumps(facts).encode() + labels, digest_size=16).hexdigest()
    folder = os.path.dirname(out)
    if folder:
        tf.io.gfile.makedirs(folder)
    for path in (f"{out}.json", _plan_path(out)):
        if tf.io.gfile.exists(path):
            with tf.io.gfile.GFile(path, "r") as file:
                if json.loads(file.read()).get("made_from") != plan:
                    raise ValueError(
                        f"{out} has shards of another source or with other settings, see {path}. "
                        "Choose another name, or delete them first."
                    )
            if path == f"{out}.json":
                return None
            return plan
    others = records.shards_of(out)
    if others:
        raise ValueError(
            f"There are shards of that name already: {listed(others, 3)}. "
            "Choose another name, or delete them first."
        )
    _write_json(_plan_path(out), {"made_from": plan})
    return plan


def _finish(out, source, counts, plan):
    index = {
        "class_names": list(source.class_names),
        "counts": counts,
        "multi_label": source.multi_label,
        "made_from": plan,
    }
    _write_json(f"{out}.json", index)
    tf.io.gfile.remove(_plan_path(out))


def _plan_path(out):
    return f"{out}.unfinished"


def _write_json(path, content):
    beside = f"{path}.{uuid.uuid4().hex}.tmp"
    with tf.io.gfile.GFile(beside, "w") as file:
        file.write(json.dumps(content, indent=1))
    tf.io.gfile.rename(beside, path, overwrite=True)


def _write(path, source, numbers, max_side, on_bad_image):
    """Writes one shard; returns its bad images."""
    beside, written, bad = f"{path}.{uuid.uuid4().hex}.tmp", set(), []
    try:
        with tf.io.TFRecordWriter(beside) as writer:
            for number, data, label in _encoded(source, numbers, max_side):
                written.add(int(number))
                writer.write(_example(data, label, source, int(number)))
        for number in numbers:
            if int(number) not in written:
                bad.append(_bad(source, int(number)))
                if on_bad_image == "raise":
                    raise ValueError(str(bad[-1]))
        tf.io.gfile.rename(beside, path, overwrite=True)
    finally:
        if tf.io.gfile.exists(beside):
            tf.io.gfile.remove(beside)
    return bad


def _encoded(source, numbers, max_side):
    """`(number, bytes, label)` of those images that can be decoded, as NumPy."""

    def shrunk(number, data, label):
        return number, _shrunk(data, max_side), label

    if isinstance(source, Source):
        labels = tf.constant(source.labels)
        items = tf.data.Dataset.from_tensor_slices(np.asarray(numbers, "int64"))
        items = items.map(lambda i: (i, source.read(i), tf.gather(labels, i)), tf.data.AUTOTUNE)
    else:
        items = source.records().enumerate().skip(int(numbers[0])).take(len(numbers))
        items = items.map(lambda number, record: (number, record[0], source.checked(record[1])))
    items = items.map(shrunk, tf.data.AUTOTUNE).ignore_errors()
    return items.prefetch(16).as_numpy_iterator()


def _shrunk(data, max_side):
    """The encoded image, none of its sides longer than `max_side`; decoded in any case."""
    encoded = data.dtype == tf.string
    image = decode(data) if encoded else data
    size = tf.shape(image)[:2]
    longest = tf.reduce_max(size)

    def shrink():
        scaled = tf.cast(size, "float32") * (limit / tf.cast(longest, "float32"))
        scaled = tf.maximum(tf.cast(tf.round(scaled), "int32"), 1)
        smaller = tf.image.resize(image, scaled, antialias=True)
        smaller = tf.cast(tf.round(smaller), "uint8")
        if not encoded:
            return tf.io.encode_png(smaller)
        jpeg = tf.equal(tf.strings.substr(data, 0, 3), b"\xff\xd8\xff")
        return tf.cond(
            jpeg,
            lambda: tf.io.encode_jpeg(smaller, quality=JPEG_QUALITY),
            lambda: tf.io.encode_png(smaller),
        )

    limit = 2**30 if max_side is None else max_side
    keep = (lambda: data) if encoded else (lambda: tf.io.encode_png(image))
    return tf.cond(longest > limit, shrink, keep)


def _bad(source, number):
    if isinstance(source, Source):
        return bad_images.why_bad(source, number, 3)
    data, _ = next(source.records().skip(number).as_numpy_iterator())
    return bad_images.BadImage(number, source.origin(number), bad_images.reason_of(data, 3))


def _example(data, label, source, number):
    """One serialized `tf.train.Example`."""
    labels = np.flatnonzero(label) if np.ndim(label) else [label]
    feature = {
        records.IMAGE: tf.train.Feature(bytes_list=tf.train.BytesList(value=[data])),
        records.LABEL: tf.train.Feature(int64_list=tf.train.Int64List(value=map(int, labels))),
    }
    if isinstance(source, Source):
        name = tf.train.BytesList(value=[source.key(number).encode()])
        feature[records.FILENAME] = tf.train.Feature(bytes_list=name)
    features = tf.train.Features(feature=feature)
    return tf.train.Example(features=features).SerializeToString()
