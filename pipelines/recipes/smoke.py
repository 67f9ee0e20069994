"""Any recipe in a minute: a tiny model on noise, with every part in its place."""

import numpy as np

from pipelines.recipes.config import replace

SIZE = (32, 48)
CLASSES = 4
VIT = {"patch_size": 8, "num_layers": 2, "num_heads": 2, "hidden_dim": 16, "mlp_dim": 32}


def smoke(recipe, source):
    """The recipe shrunk to two updates of a tiny model of the same kind.

    What makes the recipe what it is stays: pooling, positions, head, optimizer, schedule, clipping,
    averaging, accumulation, augmentation, objective.

    Args:
        recipe: A `Recipe`.
        source: Path of the file that `write_images` wrote.
    """
    model = {"image_size": SIZE, "weights": None, **_tiny(recipe.model)}
    optimizer = {
        "warmup": 1,
        "boundaries": (0.9,),  # three do not fit into two updates
        "cooldown_steps": 0,
        "accumulation": min(recipe.optimizer.accumulation, 2),
    }
    return replace(
        recipe,
        model=model,
        data={"source": str(source), "fraction": 1.0},
        optimizer=optimizer,
        epochs=None,
        rule=None,
        steps=2,
        batch_size=8,
    )


def write_images(path, channels=3, seed=0):
    """Writes 24 images of noise to train and 10 to validate on, in 4 classes.

    Args:
        path: Path of the file, `.npz`.
        channels: Integer.
        seed: Integer.
    """
    rng = np.random.default_rng(seed)
    arrays = {}
    for part, count in (("train", 24), ("val", 10)):
        arrays[f"x_{part}"] = rng.integers(0, 256, (count, 40, 52, channels), dtype="uint8")
        arrays[f"y_{part}"] = np.arange(count) % CLASSES
    np.savez(path, **arrays)


def _tiny(model):
    """Name and arguments of a small model of the same kind."""
    if model.name.startswith("BiT"):
        return {"name": "BiTResNet", "arguments": {"num_layers": (1, 1), "width": 0.5}}
    arguments = {**model.arguments, **VIT}
    if "representation_size" in arguments:
        arguments["representation_size"] = 8
    if model.name.startswith("R") or "resnet" in arguments:
        arguments.update(patch_size=1, resnet=(1, 1), resnet_width=0.5)
    return {"name": "VisionTransformer", "arguments": arguments}
