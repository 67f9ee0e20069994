"""Runs that were published, and some of ours; one file a family, each a page of notes.

A recipe is a function of a model's name that returns a frozen `Recipe`. `resolve` finds one by its
name and changes fields of it.
"""

import difflib
import importlib

from pipelines.recipes.overrides import override

FAMILIES = {
    "paper_pretraining": ("pretrain_imagenet", "pretrain_imagenet21k", "pretrain_jft"),
    "paper_finetuning": (
        "finetune_imagenet",
        "finetune_imagenet_512",
        "finetune_cifar10",
        "finetune_cifar100",
        "finetune_pets",
        "finetune_flowers",
        "finetune_vtab",
    ),
    "augreg": ("augreg_imagenet", "augreg_imagenet21k", "augreg_finetune"),
    "better_plain_vit": ("better_plain_vit",),
    "bit_hyperrule": ("bit_hyperrule",),
    "small_data": (
        "fashion_mnist",
        "fashion_mnist_larger",
        "fashion_mnist_60k",
        "cifar10",
        "cifar100",
        "folder",
    ),
    "masked_patch": ("masked_patch",),
}
LENGTHS = ("epochs", "steps", "rule")
NAMES = tuple(name for names in FAMILIES.values() for name in names)


def find(name):
    """The function of a recipe's name.

    Raises:
        ValueError: if there is no such recipe, with those that there are.
    """
    for family, names in FAMILIES.items():
        if name in names:
            return getattr(importlib.import_module(f"pipelines.recipes.{family}"), name)
    close = difflib.get_close_matches(str(name), NAMES, n=3)
    hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise ValueError(f"There is no recipe {name!r}.{hint} The recipes are: {', '.join(NAMES)}.")


def resolve(name, changes=None):
    """The recipe of a name with fields changed.

    Another model is given to the recipe first, since its table may have other values for it.

    Args:
        name: One of `NAMES`.
        changes: `{field: text}`, see `pipelines.recipes.overrides.override`.

    Returns:
        A `Recipe`.

    Raises:
        ValueError: if there is no such recipe or field, or a text is not of the field's type.

    Example:

    >>> resolve("finetune_pets", {"model.name": "ViT_L16", "optimizer.learning_rate": "3e-3"})
    """
    changes = dict(changes or {})
    model = changes.pop("model.name", None)
    recipe = find(name)(model) if model else find(name)()
    return override(recipe, _complete(recipe, changes))


def _complete(recipe, changes):
    """So that `--steps=500` alone will do where the recipe has epochs, and the reverse."""
    lengths = [name for name in LENGTHS if changes.get(name, "none").lower() != "none"]
    if len(lengths) != 1:
        return changes
    return {**dict.fromkeys(LENGTHS, "none"), **changes}
