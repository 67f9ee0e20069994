"""Trains a model on from weights by a recipe, perhaps at another resolution.

Recipes are functions in `pipelines/recipes`, with the paper, the cost and the accuracy to expect;
--dry-run prints them with all fields. Any field is changed as --optimizer.learning_rate=3e-4.
"""

from pipelines.runs.options import add_run_arguments, run

EXAMPLE = "keras-vit finetune finetune_pets --weights ViT-B_16.npz --data tfds:oxford_iiit_pet"
TAKES_OVERRIDES = True

add_arguments = add_run_arguments

__all__ = ["EXAMPLE", "TAKES_OVERRIDES", "add_arguments", "run"]
