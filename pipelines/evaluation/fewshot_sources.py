"""Few-shot accuracy of a model on a source of images."""

from pipelines.evaluation.features import cached_features
from pipelines.evaluation.fewshot import SEEDS, SHOTS, few_shot_accuracy
from pipelines.sources.grammar import open_source
from pipelines.sources.stream import in_memory


def few_shot(
    model,
    data,
    test=None,
    *,
    shots=SHOTS,
    seeds=SEEDS,
    dtype="float64",
    cache=None,
    batch_size=64,
    distribute=None,
):
    """Accuracies on all test images, `{shots: (accuracy of each seed)}`.

    Args:
        model: An `ImageModel`.
        data: Source of the images that the examples are drawn from.
        test: Source of the test images; None is the validation part of `data`.
        shots: Integers, examples a class.
        seeds: Integers, one draw each.
        dtype: `"float64"` or `"float32"`, see `pipelines.evaluation.fewshot.solve`.
        cache: Path of the folder that keeps features, or None.
        batch_size: Integer, over all devices.
        distribute: What `with pipelines.distribute(...) as d` gave, or None. All devices compute
            features; every process has the same accuracies.

    Raises:
        ValueError: if there are no test images, or images are of several classes.

    Example:

    >>> few_shot(model, "tfds:cifar100", shots=(5,))
    """
    train = in_memory(open_source(data, "train"))
    if test is None:
        tested = open_source(data, "validation", train.class_names)
    else:
        tested = open_source(test, "train", train.class_names)
    if tested is None:
        raise ValueError(
            "There are no test images: the source has no validation part. Name them by `test`, "
            "on the command line `--test`. "
            f"Received: data={data!r}"
        )
    tested = in_memory(tested)
    if train.multi_label or tested.multi_label:
        raise ValueError(f"Few-shot accuracy needs one class an image. Received: {train.name}")
    parts = [
        cached_features(model, source, cache, batch_size, distribute) for source in (train, tested)
    ]
    return few_shot_accuracy(
        parts[0],
        train.labels,
        parts[1],
        tested.labels,
        len(train.class_names),
        shots=tuple(shots),
        seeds=tuple(seeds),
        dtype=dtype,
    )
