"""Data sets of TensorFlow Datasets, with images left encoded."""

from pipelines._tensorflow import tf
from pipelines.sources.records import multi_hot
from pipelines.sources.stream import RecordStream

VALIDATION_SPLITS = ("validation", "test")


def tfds(name, split="train", data_dir=None, image_key=None, label_key=None):
    """The stream of the images of a TFDS data set, prepared first where it is not yet.

    Args:
        name: A name of TFDS, with configuration and version where wanted, such as
            `"caltech101:3.*.*"`; or a builder.
        split: A split expression, such as `"train[:90%]"`.
        data_dir: Folder of the prepared data sets; None is TFDS's own.
        image_key: Feature of the image; None is `"image"`, else the only one that is an image.
        label_key: Feature of the label; None is `"label"`, else the only one that is a class label
            or, where none is, a sequence of them.

    Raises:
        ImportError: if tensorflow-datasets is not installed.
        ValueError: if the data set cannot be prepared, or has no such split or feature.
    """
    builder = prepared(name, data_dir)
    image_key, label_key, class_names = _features(builder.info, image_key, label_key)
    part = _split(builder, split)
    several = builder.info.features[label_key].shape != ()

    def pick(example):
        label = example[label_key]
        if several:
            return example[image_key], multi_hot(label, len(class_names))
        return example[image_key], tf.cast(label, "int64")

    return RecordStream(
        name=f"tfds:{builder.info.full_name} ({split})",
        class_names=class_names,
        count=part.num_examples,
        size=_size(builder.info, part),
        records=lambda: _examples(builder, split, image_key).map(pick),
    )


def own_validation(name, data_dir=None):
    """The name of the split that a data set validates on, or None."""
    splits = prepared(name, data_dir).info.splits
    return next((word for word in VALIDATION_SPLITS if word in splits), None)


def prepared(name, data_dir=None):
    """The builder of a data set, whose files are there.

    Raises:
        ValueError: if they cannot be made; says which data set and which folder, and why.
    """
    module = _module()
    try:
        builder = module.builder(name, data_dir=data_dir) if isinstance(name, str) else name
    except Exception as error:  # an AssertionError where there is no such version
        raise ValueError(f"There is no TFDS data set {name!r}: {_first_line(error)}") from error
    try:
        builder.download_and_prepare()
    except Exception as error:  # whatever a builder raises; it is named and passed on
        raise ValueError(
            f"The TFDS data set {builder.info.full_name} is not in {builder.data_dir} and could "
            f"not be prepared: {type(error).__name__}: {error}"
        ) from error
    return builder


def _module():
    try:
        import importlib_resources  # noqa: F401 - TFDS 4.9.10 imports it and does not require it
        import tensorflow_datasets
    except ModuleNotFoundError as error:
        raise ImportError(
            f'Data sets of TFDS need {error.name}. Install it with: pip install "keras3-vit[tf]"'
        ) from error
    return tensorflow_datasets


def _features(info, image_key, label_key):
    """The keys of image and label, and the class names."""
    kinds = _module().features
    features = info.features
    images = [key for key, feature in features.items() if isinstance(feature, kinds.Image)]
    labels = [key for key, feature in features.items() if _class_label(feature) is not None]
    labels = [key for key in labels if features[key].shape == ()] or labels
    image_key = _key(image_key, "image", images, features, info.full_name)
    label_key = _key(label_key, "label", labels, features, info.full_name)
    label = _class_label(features[label_key])
    if label is None or label.num_classes is None:
        raise ValueError(
            f"The feature {label_key!r} of {info.full_name} must be a class label. "
            f"Received: {features[label_key]}"
        )
    return image_key, label_key, tuple(label.names)


def _class_label(feature):
    kinds = _module().features
    if isinstance(feature, kinds.Sequence):
        feature = feature.feature
    return feature if isinstance(feature, kinds.ClassLabel) else None


def _key(key, usual, found, features, name):
    """The feature that was asked for, else the usual one, else the only one of its kind.

    The order of features is another one in every process, so the first means nothing.
    """
    if key in features:
        return key
    if key is None and usual in found:
        return usual
    if key is None and len(found) == 1:
        return found[0]
    raise ValueError(
        f"{name} does not say which feature is the {usual}; name one with `{usual}_key`. "
        f"Received: {usual}_key={key!r}, features {sorted(features)}"
    )


def _split(builder, split):
    try:
        return builder.info.splits[split]
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{builder.info.full_name} has no split {split!r}. It has {list(builder.info.splits)}, "
            "and parts of them such as 'train[:90%]'."
        ) from error


def _size(info, part):
    """Bytes of a split, or its share of the whole by examples."""
    total = sum(split.num_examples for split in info.splits.values())
    return int((info.dataset_size or 0) * part.num_examples / max(total, 1))


def _examples(builder, split, image_key):
    module = _module()
    return builder.as_dataset(
        split=split,
        shuffle_files=False,
        decoders={image_key: module.decode.SkipDecoding()},
        read_config=module.ReadConfig(try_autocache=False),
    )


def _first_line(error):
    return str(error).strip().split("\n")[0]
