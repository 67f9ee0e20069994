"""A source with the labels of a model: whose output is which class."""

from keras_vit.applications.class_names import imagenet_classes, imagenet_names
from pipelines.sources.source import Source, are_indices, are_numbers, check_labels, listed


def with_labels_of(spec, source):
    """The source with labels that index a model's outputs, as far as names or numbers tell.

    Args:
        spec: The model's, for its `classes` and `class_names`.
        source: A `Source` or `RecordStream`. Its classes may be named as the model's are, by
            WordNet's identifiers where the model's are ImageNet's, or be only numbers.

    Returns:
        The source, relabelled; as it is where the model does not name its classes.

    Raises:
        ValueError: if the model names some of the source's classes and others not, or a label is
            of none of its outputs.
    """
    return _by_number(spec, _by_name(spec, source))


def _by_name(spec, source):
    names = tuple(spec.class_names or ())
    if names == imagenet_names():
        identifiers = tuple(identifier for identifier, _ in imagenet_classes())
        names = identifiers if set(source.class_names) & set(identifiers) else names
    known = set(names) & set(source.class_names)
    if not known:
        return source
    unknown = [name for name in source.class_names if name not in known]
    if unknown:
        raise ValueError(
            f"Some classes of {source.name} are not among the {spec.classes} that the model names: "
            f"{listed(unknown)}. Pass `class_names`, on the command line `--classes-file`, in the "
            "order of the model's outputs."
        )
    return source.relabel(names)


def _by_number(spec, source):
    """A source whose classes are only numbers, with as many of them as the model has outputs."""
    if not spec.include_top or spec.classes == 1:
        return source
    if are_indices(source.class_names, spec.classes):
        return source.relabel(map(str, range(spec.classes)))
    if not are_numbers(source.class_names):
        return source
    if isinstance(source, Source) and not source.multi_label:
        check_labels(source.labels, spec.classes, source.name)
    return source
