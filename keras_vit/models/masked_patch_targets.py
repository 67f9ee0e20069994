"""What masked patch prediction predicts: the patches' colours in 3 bits a channel, or pixels.

Shapes: B images, N patches a row after another, n of them asked for, C channels, (h, w) a patch in
pixels. Prediction and truth are compared by a Keras loss, so that sample weights and the scale
under a distribution strategy are Keras's.
"""

import math

import keras
import numpy as np
from keras import ops

LEVELS = 8  # of a channel: 3 bits
MOST_CHANNELS = 4  # 8**4 = 4,096 colours
TARGETS = {"mean_color": 1, "downsampled": 4}  # the side of the downsized patch; else pixels


def make_target(name, spec, patch_size):
    """The target of this name for a model's images and patches of `patch_size` pixels."""
    if name == "pixels":
        return PixelTarget(spec, patch_size)
    return ColorTarget(name, spec, patch_size)


class ColorTarget:
    """One colour, 8 levels a channel, for each cell of the patch downsized to `side` x `side`.

    The paper's 3-bit mean colour, 512 classes for RGB (one cell), and its 4 x 4 version with 16
    predictions (arXiv 2010.11929, B.1.2). The red level counts most: class = 64 r + 8 g + b.

    Raises:
        ValueError: if there are too many channels, or a patch is smaller than the cells.
    """

    def __init__(self, name, spec, patch_size):
        self.side, self.spec, self.patch_size = TARGETS[name], spec, patch_size
        self.classes = LEVELS**spec.channels
        self.units = self.side**2 * self.classes
        if spec.channels > MOST_CHANNELS:
            raise ValueError(
                f"`target={name!r}` has {LEVELS}**channels classes, so it is for images of at most "
                f"{MOST_CHANNELS} channels. Received: channels={spec.channels}. "
                "Choose `target='pixels'`."
            )
        if min(patch_size) < self.side:
            raise ValueError(
                f"`target={name!r}` downsizes patches to {self.side} x {self.side} pixels. "
                f"Received: patches of {patch_size[0]} x {patch_size[1]}. "
                "Choose `target='mean_color'` or `target='pixels'`."
            )

    def loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def shape_predictions(self, units):
        """`(B, n, units)` -> logits `(B, n, 8**C)`, or `(B, n, 16, 8**C)`."""
        cells = (self.side**2,) if self.side > 1 else ()
        return ops.reshape(units, (-1, units.shape[1], *cells, self.classes))

    def of(self, patches):
        """Patches `(B, n, h, w, C)` as a model takes them -> classes `(B, n * cells)`."""
        # Averaged before it is scaled: sums of whole numbers are exact.
        colors = to_unit(self.spec, area_mean(patches, self.side))  # (B, n, side, side, C)
        levels = ops.clip(ops.cast(ops.floor(colors * LEVELS), "int32"), 0, LEVELS - 1)
        classes = ops.sum(levels * ops.array(self._place_values(), "int32"), axis=-1)
        return ops.reshape(classes, (-1, math.prod(classes.shape[1:])))

    def flatten(self, predictions):
        """Logits -> `(B, n * cells, 8**C)`, one for each class in `of`."""
        return ops.reshape(predictions, (-1, math.prod(predictions.shape[1:-1]), self.classes))

    def pictures(self, predictions):
        """NumPy logits -> patches `(B, n, h, w, C)` from 0 to 1, of the likeliest colours."""
        classes = np.argmax(predictions, axis=-1).reshape(*predictions.shape[:2], -1)
        levels = classes[..., None] // np.array(self._place_values()) % LEVELS
        colors = ((levels + 0.5) / LEVELS).astype("float32")  # the middle of a level
        cells = colors.reshape(*predictions.shape[:2], self.side, self.side, -1)
        rows, columns = (np.arange(size) * self.side // size for size in self.patch_size)
        return cells[:, :, rows[:, None], columns]

    def _place_values(self):
        return [LEVELS**i for i in reversed(range(self.spec.channels))]


class PixelTarget:
    """All pixels of the patch, in the scale that the encoder reads, by their squared error."""

    def __init__(self, spec, patch_size):
        self.spec, self.patch_size = spec, patch_size
        self.units = math.prod(patch_size) * spec.channels

    def loss(self):
        return keras.losses.MeanSquaredError()

    def metrics(self):
        return []

    def shape_predictions(self, units):
        """`(B, n, units)` -> `(B, n, h, w, C)`."""
        return ops.reshape(units, (-1, units.shape[1], *self.patch_size, self.spec.channels))

    def of(self, patches):
        """Patches `(B, n, h, w, C)` as a model takes them -> values `(B, n * h * w, C)`."""
        values = patches
        if self.spec.include_preprocessing:
            facts = self.spec.preprocessing
            mean, std = ops.array(facts.mean, "float32"), ops.array(facts.std, "float32")
            values = (to_unit(self.spec, patches) - mean) / std
        return self.flatten(values)

    def flatten(self, predictions):
        """`(B, n, h, w, C)` -> `(B, n * h * w, C)`."""
        number = math.prod(predictions.shape[1:-1])
        return ops.reshape(predictions, (-1, number, self.spec.channels))

    def pictures(self, predictions):
        """NumPy predictions -> patches `(B, n, h, w, C)` from 0 to 1."""
        facts = self.spec.preprocessing
        return np.clip(predictions * np.float32(facts.std) + np.float32(facts.mean), 0.0, 1.0)


def cut(images, grid, patch_size):
    """Images `(B, H, W, C)` -> float32 patches `(B, N, h, w, C)`, row by row."""
    (rows, columns), (height, width) = grid, patch_size
    channels = images.shape[-1]
    images = ops.cast(images, "float32")
    patches = ops.reshape(images, (-1, rows, height, columns, width, channels))
    patches = ops.transpose(patches, (0, 1, 3, 2, 4, 5))
    return ops.reshape(patches, (-1, rows * columns, height, width, channels))


def paste(patches, grid):
    """NumPy patches `(B, N, h, w, C)` -> images `(B, H, W, C)`: what `cut` cut."""
    number, _, height, width, channels = patches.shape
    patches = patches.reshape(number, *grid, height, width, channels).transpose(0, 1, 3, 2, 4, 5)
    return patches.reshape(number, grid[0] * height, grid[1] * width, channels)


def to_unit(spec, pixels):
    """A tensor of pixels as a model takes them, in the range of 0 to 1."""
    if spec.include_preprocessing:
        return pixels / 255.0
    facts = spec.preprocessing
    return pixels * ops.array(facts.std, "float32") + ops.array(facts.mean, "float32")


def area_mean(patches, side):
    """`(B, n, h, w, C)` -> `(B, n, side, side, C)`, each the mean of the area that it covers.

    Where a side of the patch does not divide, its pixels are repeated until it does: products with
    weights would be rounded on an accelerator.
    """
    for axis in (2, 3):
        repeats = side // math.gcd(patches.shape[axis], side)
        patches = ops.repeat(patches, repeats, axis) if repeats > 1 else patches
    _, number, height, width, channels = patches.shape
    cells = (-1, number, side, height // side, side, width // side, channels)
    return ops.mean(ops.reshape(patches, cells), axis=(3, 5))
