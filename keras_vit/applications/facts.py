"""The facts about pixels and classes, of a model or of published weights by their name."""

from keras_vit.applications.sizes import BIT_SIZES, HYBRID_SIZES, VIT_SIZES
from keras_vit.models.image_spec import ImageSpec
from keras_vit.models.preprocessing import Preprocessing
from keras_vit.weights import catalogue

# Without a model: pixels in [-1, 1] as in the paper's code.
DEFAULT = Preprocessing()

CONSTRUCTORS = (*VIT_SIZES, *HYBRID_SIZES, *BIT_SIZES)


def facts_of(model_or_weights):
    """The spec of a model, or the catalogue's entry of weights.

    Args:
        model_or_weights: A model that keras_vit made, its spec, or the name of weights after that
            of their constructor, `"ViT_B16/imagenet"`. The constructor can be left out where the
            weights of that name are all alike in what is asked for here.

    Returns:
        An `ImageSpec` or a `WeightEntry`: both have `preprocessing` and `classes`.

    Raises:
        ValueError: if it is neither, or a name of no weights or of several.
    """
    if isinstance(model_or_weights, str):
        return named_weights(model_or_weights)
    spec = getattr(model_or_weights, "spec", model_or_weights)
    if isinstance(spec, (ImageSpec, catalogue.WeightEntry)):
        return spec
    raise ValueError(
        "`model_or_weights` must be a model made by keras_vit, which knows its pixels and classes, "
        "or the name of weights such as 'ViT_B16/imagenet'. "
        f"Received: model_or_weights={model_or_weights!r}"
    )


def named_weights(text):
    """The catalogue's entry of `"constructor/weights"`, or of weights of one name for all."""
    constructor, _, name = text.rpartition("/")
    if constructor:
        _check_constructor(constructor, text)
        return catalogue.find(constructor, name)
    found = {model: catalogue.entry_of(model, name) for model in CONSTRUCTORS}
    found = {model: entry for model, entry in found.items() if entry is not None}
    if not found:
        raise ValueError(
            "`model_or_weights` must be a constructor and the name of its weights, such as "
            f"'ViT_B16/imagenet'. `keras-vit models` lists them all. Received: {text!r}"
        )
    entries = list(found.values())
    if any(_asked_for(entry) != _asked_for(entries[0]) for entry in entries):
        raise ValueError(
            f"The weights {text!r} of several models differ in their pixels or classes. "
            f"Choose one of {', '.join(repr(f'{model}/{name}') for model in found)}."
        )
    return entries[0]


def _check_constructor(constructor, text):
    if constructor not in CONSTRUCTORS:
        raise ValueError(
            f"The part before the slash must be one of {', '.join(CONSTRUCTORS)}. "
            f"Received: {text!r}. Weights from a file are loaded into a model first."
        )


def _asked_for(entry):
    return entry.preprocessing, entry.label_set, entry.classes, entry.zero_head
