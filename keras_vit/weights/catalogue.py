"""The published checkpoints, as data: where they are, what they are, and who says so.

Only what a source states is here. Google publishes neither sizes nor hashes of most files; those
are None, and a download is checked against what the server says. Names of weights:

* `orig_...`: the Vision Transformer paper's own, `augreg_...`: arXiv 2106.10270, better trained,
  `sam_...`: trained with sharpness-aware minimisation, `bit_s_...`, `bit_m_...`: BiT ResNets,
  `distilled_...`, `teacher_...`: arXiv 2106.05237;
* `..._imagenet21k`: the classes and data of pre-training, `..._ft_imagenet_384`: fine-tuned on
  ImageNet-1k at that resolution;
* `hf_...`, `timm_...`: the same weights at the Hugging Face Hub, in the names of transformers and
  timm. These implementations differ from Google's in constants, which the model takes from
  `WeightEntry.origin`.
"""

from keras_vit.weights.published import bit, google, timm, transformers
from keras_vit.weights.published.entry import WeightEntry

ENTRIES = (*google.ENTRIES, *bit.ENTRIES, *transformers.ENTRIES, *timm.ENTRIES)

# What an alias stands for: the first of these that the model has. "imagenet" prefers 224.
ALIASES = {
    "imagenet": (
        "augreg_imagenet21k_ft_imagenet_224",
        "orig_imagenet21k_ft_imagenet_224",
        "distilled_imagenet_224",
        "teacher_imagenet21k_ft_imagenet_224",
        "orig_imagenet21k_ft_imagenet_384",
        "bit_m_imagenet21k_ft_imagenet_448",
        "bit_m_imagenet21k_ft_imagenet_480",
    ),
    "imagenet-384": (
        "augreg_imagenet21k_ft_imagenet_384",
        "orig_imagenet21k_ft_imagenet_384",
        "teacher_imagenet21k_ft_imagenet_384",
    ),
    "imagenet21k": ("augreg_imagenet21k", "orig_imagenet21k", "bit_m_imagenet21k"),
}


def entries(model: str | None = None) -> tuple[WeightEntry, ...]:
    """The published checkpoints of a model, or all of them.

    Args:
        model: Name of a constructor, such as `"ViT_B16"`.
    """
    return tuple(entry for entry in ENTRIES if model in (None, entry.model))


def aliases(model: str) -> dict[str, str]:
    """`{alias: name of weights}` for the aliases that mean something for a model."""
    names = {entry.name for entry in entries(model)}
    meanings = {alias: [n for n in chain if n in names] for alias, chain in ALIASES.items()}
    return {alias: found[0] for alias, found in meanings.items() if found}


def entry_of(model: str, weights: str) -> WeightEntry | None:
    """The entry of a model's weights by their name or alias; None if it has none of that name."""
    name = aliases(model).get(weights, weights)
    return next((entry for entry in entries(model) if entry.name == name), None)


def find(model: str, weights: str) -> WeightEntry:
    """The entry that a model's `weights=` names.

    Args:
        model: Name of a constructor, such as `"ViT_B16"`.
        weights: A name or an alias.

    Raises:
        ValueError: if the model has no weights of that name. It lists those that it has.

    Example:

    >>> find("ViT_B16", "imagenet").url
    """
    entry = entry_of(model, weights)
    if entry is not None:
        return entry
    names = [*aliases(model), *(entry.name for entry in entries(model))]
    raise ValueError(
        f"`weights` for '{model}' must be {', '.join(map(repr, names)) + ', ' if names else ''}"
        f"None for fresh weights, or the path of a file. Received: weights={weights!r}"
    )
