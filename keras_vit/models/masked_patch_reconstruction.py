"""What masked patch prediction sees and says, as pictures."""

import dataclasses

import numpy as np
from keras import ops

from keras_vit.layers import checks
from keras_vit.models.masked_patch_corruption import EXCHANGED, MASKED
from keras_vit.models.masked_patch_targets import cut, paste, to_unit

GREY = 0.5  # where there is only the mask token


@dataclasses.dataclass(frozen=True)
class Reconstruction:
    """Pictures of 0 to 1, float32 arrays `(B, H, W, C)`, and what was done to each patch.

    Attributes:
        images: The images.
        corrupted: What the encoder is told: masked patches are grey, exchanged ones show the patch
            that took their place.
        predicted: The images with the prediction in place of every corrupted patch.
        kinds: Integer array `(B, rows, columns)`: 0 visible, 1 masked, 2 exchanged, 3 corrupted in
            name only: it stays and is predicted.
    """

    images: np.ndarray
    corrupted: np.ndarray
    predicted: np.ndarray
    kinds: np.ndarray


def reconstruct(model, images, batch_size):
    """The `Reconstruction` of some images by a `MaskedPatchPrediction`."""
    images, batch_size = np.asarray(images), checks.positive_integer(batch_size, "batch_size")
    starts = range(0, len(images), batch_size)
    parts = [_reconstruct_batch(model, images[start : start + batch_size]) for start in starts]
    if not parts:
        raise ValueError(f"There must be images. Received: images.shape={images.shape}")
    return Reconstruction(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _reconstruct_batch(model, images):
    outputs = {name: ops.convert_to_numpy(v) for name, v in model(images, training=False).items()}
    plan = model.corruption.plan(len(images))  # in inference it is always the same
    kinds, sources = ops.convert_to_numpy(plan.kinds), ops.convert_to_numpy(plan.sources)
    spec, target = model.model_spec, model.prediction_target
    patches = to_unit(spec, cut(images, spec.grid, target.patch_size))
    patches = np.clip(ops.convert_to_numpy(patches), 0.0, 1.0)  # (B, N, h, w, C)

    corrupted, predicted = patches.copy(), patches.copy()
    corrupted[kinds == MASKED] = GREY
    exchanged = kinds == EXCHANGED
    corrupted[exchanged] = patches.reshape(-1, *patches.shape[2:])[sources[exchanged]]
    rows = np.arange(len(images))[:, None]
    predicted[rows, outputs["indices"]] = target.pictures(outputs["predictions"])
    pictures = [paste(each, spec.grid) for each in (patches, corrupted, predicted)]
    return *pictures, kinds.reshape(-1, *spec.grid)
