"""The libraries that are measured side by side, each in a process of its own.

Every module here has a class `Peer`, made from a `Job`, with `forward()`, one forward pass of a
batch, and `train(steps)`, both done when they return. Models are the paper's Vision Transformers
with a class token, exact shapes and 1,000 logits, without dropout.
"""

import dataclasses
import importlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))  # keras_vit is that of this checkout

LEARNING_RATE, WEIGHT_DECAY = 1e-3, 0.1  # of AdamW, everywhere

# Layers, heads, width, width of the MLP (arXiv 2010.11929, table 1; Ti and S are AugReg's).
SIZES = {
    "tiny": (2, 2, 16, 32),  # of no paper: for tests
    "Ti": (12, 3, 192, 768),
    "S": (12, 6, 384, 1536),
    "B": (12, 12, 768, 3072),
    "L": (24, 16, 1024, 4096),
    "H": (32, 16, 1280, 5120),
}

MODULES = {
    "keras_vit": "ours",
    "keras_vit, compiled": "ours",
    "KerasHub": "keras_hub_vit",
    "Flax": "flax_vit",
    "timm": "timm_vit",
    "timm, compiled": "timm_vit",
    "transformers": "transformers_vit",
}

# Those that are compared on each backend; ours comes first. What of one group runs at the same
# time must fit into memory together.
GROUPS = {
    "tensorflow": [["keras_vit", "KerasHub"]],
    "jax": [["keras_vit", "KerasHub", "Flax"]],
    "torch": [
        ["keras_vit", "timm", "transformers", "KerasHub"],
        ["keras_vit, compiled", "timm, compiled"],
    ],
}


@dataclasses.dataclass(frozen=True)
class Job:
    """What a peer is to do.

    Attributes:
        model: `"B/16"`, or `"R50+B/16"` for a hybrid.
        image_size: Integer, pixels of a side.
        batch: Integer.
        dtype: `"float32"`, `"mixed_bfloat16"` or `"bfloat16"`.
        compiled: On PyTorch, whether `torch.compile` is used; elsewhere compiling is the rule.
        folded: Whether the weight standardisation of our hybrids is folded.
        resident: Whether the images lie on the device already, and Keras's `predict` and `fit`
            are passed by. Otherwise everything begins and ends with NumPy arrays, as a user's
            does.
        switch: What of ours is switched on: `"rematerialize"`, `"steps_per_execution"`,
            `"jit_compile"` (the other way than Keras chooses by itself), `"int8"`,
            `"patch_dropout"`, or nothing.
        classes: Integer.
    """

    model: str = "B/16"
    image_size: int = 224
    batch: int = 8
    dtype: str = "float32"
    compiled: bool = False
    folded: bool = False
    resident: bool = False
    switch: str = ""
    classes: int = 1000

    @property
    def hybrid(self):
        return self.model.startswith("R")

    @property
    def size(self):
        """Layers, heads, width, width of the MLP."""
        return SIZES[self.model.split("+")[-1].split("/")[0]]

    @property
    def patch_size(self):
        return int(self.model.split("/")[1])

    def images(self):
        """A batch of noise, channels last."""
        import numpy as np

        shape = (self.batch, self.image_size, self.image_size, 3)
        return np.random.default_rng(0).standard_normal(shape, "float32")

    def labels(self):
        import numpy as np

        return np.random.default_rng(1).integers(0, self.classes, self.batch)


def make(name, job):
    """The peer of a name. Raises ImportError where its library is not installed."""
    job = dataclasses.replace(job, compiled=name.endswith(", compiled"))
    return _module(name).Peer(job)


def builder(name, job):
    """A function that builds the Keras model of a peer, whose library is imported already."""
    module = _module(name)
    return lambda: module.build(job)


def _module(name):
    return importlib.import_module(f"peers.{MODULES[name]}")


def refuse_hybrid(job, library):
    if job.hybrid:
        raise ValueError(f"{library} has no hybrids")
