"""`pipelines.load`: from the name of a source to the data that `fit` takes."""

import warnings

from keras_vit.layers import checks
from pipelines.augment import augmentation
from pipelines.feed import bad_images
from pipelines.feed.evaluation import EvaluationData
from pipelines.feed.in_sequence import InSequence
from pipelines.feed.order import Order
from pipelines.feed.random_access import RandomAccess
from pipelines.feed.targets import ONE_HOT, targets_for
from pipelines.feed.training import TrainingData
from pipelines.sources.grammar import open_source
from pipelines.sources.model_labels import with_labels_of
from pipelines.sources.source import Source
from pipelines.sources.splits import fraction as take_fraction
from pipelines.sources.splits import hold_out
from pipelines.sources.stream import in_memory

HELD_OUT = 0.1  # of each class, where a source has no validation images of its own
CACHE = 2**31
ON_BAD_IMAGE = ("raise", "skip")


def load(
    source,
    *,
    model,
    batch_size,
    augment=None,
    seed=0,
    fraction=1.0,
    validation=None,
    distribute=None,
    class_names=None,
    one_hot=None,
    on_bad_image="raise",
    cache=CACHE,
    start_step=0,
    repeat=False,
    split_seed=0,
):
    """Training and validation data that fit a model.

    Training images are shuffled and augmented anew in every epoch; the same seed gives the same
    pixels, on any number of workers and hosts. Validation images are whole, in order, and the same
    every time. Images have the model's size and channels, and its range: float32, or uint8 where
    the model includes its preprocessing.

    Args:
        source: Where images come from: a folder, `labels.csv`, `arrays.npz`, `tfds:NAME`,
            `records:PATTERN` or `fashion_mnist`, see `pipelines.sources.grammar`; or a `Source`, or
            arrays `(images, labels)`.
        model: A model of this library, for its `spec`, and for its loss where it is compiled.
        batch_size: Integer, images of a batch over all devices and hosts.
        augment: A name such as `"medium1"`, an `Augment`, or None, which only resizes.
        seed: Integer, of the order and the augmentation.
        fraction: Float, the share of every class's training images to use; a smaller share is part
            of a larger one.
        validation: None for what the source has itself, else a tenth of each class; a share of each
            class to hold out; another source; or False for none.
        distribute: What `with pipelines.distribute(...) as d` gave, or None. Every host gets its
            own rows of each batch.
        class_names: Strings in the order of the model's outputs. None is the model's own where it
            has the names of all of the source's classes, else the source's. Classes that are only
            numbers are the numbers of the outputs.
        one_hot: Whether labels are float32 `(B, K)` instead of int32 `(B,)`. None decides by what
            the augmentation and the model's loss need.
        on_bad_image: `"raise"`, an error that names the image that cannot be decoded, when it is
            met; or `"skip"`: all images are decoded once before, and the bad ones left out and
            counted in a warning.
        cache: Integer, bytes. Records that take no more are held in memory, encoded, which gives
            them random access; larger ones are read as streams. 0 holds none.
        start_step: Integer, the step of training that the data begin with, to resume exactly.
        repeat: False: an iterator over the training data has the batches of one epoch, and the next
            one goes on from there, for `fit(train, epochs=...)`. True: every iterator begins at
            `start_step` and has no end, for `fit(train, steps_per_epoch=...)`.
        split_seed: Integer; another one holds out and leaves out other images. `seed` has no say in
            this, so that runs with other seeds validate on the same images.

    Returns:
        `(train, validation)`, `tf.data.Dataset`s of `(images, labels)` and of
        `(images, labels, mask)`, for all backends; None for no validation.

    Raises:
        FileNotFoundError: if there is no such source.
        ValueError: if an argument is not one of these, or source and model do not fit.

    Example:

    >>> train, validation = pipelines.load("photos/", model=model, batch_size=64, augment="light1")
    >>> model.compile("sgd", "sparse_categorical_crossentropy", weighted_metrics=["accuracy"])
    >>> model.fit(train, validation_data=validation, epochs=3)
    """
    checks.one_of(on_bad_image, "on_bad_image", ON_BAD_IMAGE)
    checks.positive_integer(start_step, "start_step", 0)
    spec, augment = _spec(model), augmentation(augment)
    parts = _parts(source, validation, spec, class_names, cache, split_seed)
    parts = [_whole(part, on_bad_image, spec) for part in parts]
    train = take_fraction(parts[0], fraction, split_seed)
    targets = targets_for(train, model, augment, one_hot)
    order = Order(train.count, batch_size, seed, *_hosts(distribute, batch_size))
    data = TrainingData(_rows(train, order), augment, targets, spec)
    batches = data.endless(start_step) if repeat else data.passes(start_step)
    if parts[1] is None:
        return batches, None
    return batches, evaluation_data(parts[1], spec, batch_size, targets, distribute)


def evaluation_data(source, spec, batch_size, targets, distribute=None):
    """The batches that evaluate a source: every image once, the last batch filled up.

    Args:
        source: A `Source` or `RecordStream`.
        spec: The model's.
        batch_size: Integer, over all devices and hosts.
        targets: A `Targets`, see `pipelines.feed.targets.targets_for`.
        distribute: As of `load`.

    Returns:
        `tf.data.Dataset` of `(images, targets, mask)`.

    Raises:
        ValueError: if images are of several classes, and targets of one.
    """
    checks.positive_integer(batch_size, "batch_size")
    if source.multi_label and targets.kind != ONE_HOT:
        raise ValueError(
            f"The images of {source.name} are of several classes, and those trained on of one: "
            "pass `one_hot=True`, and a loss that takes such labels."
        )
    rows = -(-source.count // batch_size) * batch_size
    order = Order(rows, batch_size, 0, *_hosts(distribute, batch_size))
    return EvaluationData(_rows(source, order), targets, spec).batches()


def steps_per_epoch(source, batch_size):
    """How many full batches an epoch of a `Source` or `RecordStream` has."""
    return Order(source.count, batch_size).steps_per_epoch


def _spec(model):
    spec = getattr(model, "spec", None)
    if spec is None:
        raise ValueError(
            "`model` must be a model of keras_vit with its `spec`, which says what images it "
            f"takes. Received: model={model!r}"
        )
    return spec


def _parts(source, validation, spec, class_names, cache, split_seed):
    """Training and validation source with the same classes; None for no validation."""
    train = in_memory(open_source(source, "train", class_names), cache)
    if class_names is None:
        train = with_labels_of(spec, train)
    names = train.class_names
    if validation is False:
        return train, None
    if validation is None:
        own = open_source(source, "validation", names)
        if own is not None:
            return train, in_memory(own, cache)
        return hold_out(train, HELD_OUT, split_seed)
    if isinstance(validation, (int, float)):
        return hold_out(train, validation, split_seed)
    return train, in_memory(_validation(validation, names), cache)


def _validation(validation, names):
    """The validation part of a source that was named for it, or all of it if it has no parts."""
    own = open_source(validation, "validation", names)
    return open_source(validation, "train", names) if own is None else own


def _whole(source, on_bad_image, spec):
    """The source; without its bad images if they shall be skipped."""
    if source is None or on_bad_image == "raise":
        return source
    good, bad = bad_images.without_bad_images(source, spec.channels)
    if bad:
        warnings.warn(bad_images.summary(bad, source), stacklevel=4)
    return good


def _rows(source, order):
    return (RandomAccess if isinstance(source, Source) else InSequence)(source, order)


def _hosts(distribute, batch_size):
    if distribute is None:
        return 1, 0
    distribute.local_batch_size(batch_size)  # refuses what the replicas do not divide
    return distribute.hosts, distribute.host
