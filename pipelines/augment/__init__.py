"""Augmentation of training images: crops, flips, RandAugment, erasing, Mixup and CutMix.

An `Augment` is a frozen value. It is told apart by what the input pipeline knows at each stage, and
draws every random number from the seed it is given, an integer tensor `(2,)`: the same seed gives
the same pixels, whatever the number of workers. One image has one seed for both of its stages.

```python
augment = augmentation("medium1")                     # or an Augment(...), or None

# One image, encoded: the window is drawn from the size in the file's header.
box = augment.boxes(height, width, seed, image_size)  # int32 (4,): top, left, height, width
crop = tf.image.decode_and_crop_jpeg(data, box)
image = augment.finish(crop, seed, image_size)        # uint8 (h, w, C): resized, then .image

# One image, decoded: the same pixels.
image = augment.view(decoded, seed, image_size)

# A batch. `augment.mixes` says whether labels must be one-hot, float32 (B, K).
images, one_hot = augment.batch(images, one_hot, seed)
```

`augment.image(image, seed)` is what follows the resize: flip, RandAugment, erasing, uint8 in and
out. `augment.fuses` is False where the crop needs the decoded image, as keras-cv's does: then only
`view` will do.
"""

from pipelines.augment.crops import (
    CROPS,
    CentralCrop,
    InceptionCrop,
    RandomCrop,
    Whole,
    bit_sizes,
)
from pipelines.augment.policy import Augment
from pipelines.augment.presets import PRESETS, augmentation

__all__ = [
    "CROPS",
    "PRESETS",
    "Augment",
    "CentralCrop",
    "InceptionCrop",
    "RandomCrop",
    "Whole",
    "augmentation",
    "bit_sizes",
]
