"""One augmentation as a frozen value: what is done to each image, and to each batch."""

import dataclasses

from pipelines._tensorflow import tf
from pipelines.augment import crops
from pipelines.augment.flips import random_flip
from pipelines.augment.resizing import resized
from pipelines.augment.seeds import children

ENGINES = ("tf", "keras_cv")


@dataclasses.dataclass(frozen=True)
class Augment:
    """What is done to training images. See `pipelines.augment` for how it is used.

    Attributes:
        crop: A name of `CROPS`, or an `InceptionCrop`, `RandomCrop`, `CentralCrop` or `Whole`.
        flip: Whether half of the images are mirrored left to right.
        randaugment: None, or `(layers, magnitude)`: how many operations an image undergoes, and how
            strong they are, on the scale of 0 to 10 and beyond.
        randaugment_size: None moves and cuts by the reference's pixels, which are meant for images
            of 224 x 224; an integer, 224 for one, scales them with the image's sides over it.
        mixup: Alpha of the Beta distribution of Mixup; 0 is none.
        cutmix: Alpha of the Beta distribution of CutMix; 0 is none. With both, each is taken for
            half of the batches (or images).
        mix_each: Whether each image of a batch has its own coefficient, instead of one for all.
        erasing: Probability that a rectangle of an image becomes noise.
        label_smoothing: Share of the labels that is spread evenly over all classes.
        engine: `"tf"`, or `"keras_cv"`: keras-cv's RandomCropAndResize, RandAugment and GridMask,
            which follow no seed.
        grid_mask: Whether keras-cv's GridMask is applied; needs that engine.
    """

    crop: object = "inception"
    flip: bool = True
    randaugment: tuple | None = None
    randaugment_size: int | None = None
    mixup: float = 0.0
    cutmix: float = 0.0
    mix_each: bool = False
    erasing: float = 0.0
    label_smoothing: float = 0.0
    engine: str = "tf"
    grid_mask: bool = False

    @property
    def mixes(self):
        """Whether labels must be one-hot before `batch`."""
        return bool(self.mixup or self.cutmix or self.label_smoothing)

    @property
    def fuses(self):
        """Whether `boxes` followed by `finish` gives what `view` does."""
        return self.engine == "tf"

    def boxes(self, height, width, seed, image_size):
        """The window to cut, int32 `(4,)`: top, left, height, width."""
        crop = crops.CROPS[self.crop] if isinstance(self.crop, str) else self.crop
        return crop.box(height, width, seed, image_size)

    def finish(self, crop, seed, image_size):
        """Resizes a window that was cut and augments it: uint8 `(*image_size, C)`."""
        return self.image(resized(crop, image_size), seed)

    def view(self, image, seed, image_size):
        """A decoded image, uint8 `(H, W, C)`, to what the model is trained on."""
        height, width = tf.unstack(tf.shape(image)[:2])
        box = self.boxes(height, width, seed, image_size)
        crop = tf.slice(image, [box[0], box[1], 0], [box[2], box[3], -1])
        return self.finish(crop, seed, image_size)

    def image(self, image, seed):
        """Augments one image, uint8 `(H, W, C)`, after the resize."""
        # The box took `seed` itself; nothing else may, or it would follow the box.
        flip, *_ = children(seed, 3)
        return random_flip(image, flip) if self.flip else image

    def batch(self, images, one_hot, seed):
        """Mixes the images and labels of a batch."""
        return images, one_hot
