"""One augmentation as a frozen value: what is done to each image, and to each batch."""

import dataclasses

from keras_vit.layers import checks
from pipelines._tensorflow import tf
from pipelines.augment import crops, keras_cv_engine, mixing
from pipelines.augment.flips import random_flip
from pipelines.augment.labels import smoothed
from pipelines.augment.patches import random_erasing
from pipelines.augment.randaugment import randaugment
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
            strong they are, on a scale of 0 to 10 that goes on beyond.
        randaugment_size: None moves and cuts by the reference's pixels, which are meant for images
            of 224 x 224; a number, 224 for one, scales them with the image's sides over it.
        mixup: Alpha of the Beta distribution of Mixup; 0 is none.
        cutmix: Alpha of the Beta distribution of CutMix; 0 is none. With both, each is taken for
            half of the batches, or of the images.
        mix_each: Whether each image of a batch has its own coefficient, instead of one for all.
        erasing: Probability that a rectangle of an image becomes noise.
        label_smoothing: Share of the labels that is spread evenly over all classes.
        engine: `"tf"`, or `"keras_cv"`: the Inception crop, RandAugment and GridMask are keras-cv's
            and follow no seed.
        grid_mask: Whether keras-cv's GridMask is applied; needs that engine.

    Raises:
        ValueError: if a value is out of its range.
        ImportError: if the engine is not installed.

    Example:

    >>> Augment(crop="random", randaugment=(2, 10), mixup=0.2, erasing=0.25)
    """

    crop: object = "inception"
    flip: bool = True
    randaugment: tuple | None = None
    randaugment_size: float | None = None
    mixup: float = 0.0
    cutmix: float = 0.0
    mix_each: bool = False
    erasing: float = 0.0
    label_smoothing: float = 0.0
    engine: str = "tf"
    grid_mask: bool = False

    def __post_init__(self):
        if not isinstance(self.crop, crops.KINDS):
            checks.one_of(self.crop, "crop", tuple(crops.CROPS))
        for name in ("flip", "mix_each", "grid_mask"):
            checks.boolean(getattr(self, name), name)
        for name in ("mixup", "cutmix"):
            _check_range(getattr(self, name), name)
        for name in ("erasing", "label_smoothing"):
            _check_range(getattr(self, name), name, most=1)
        if self.randaugment is not None:
            object.__setattr__(self, "randaugment", _layers_and_magnitude(self.randaugment))
        if self.randaugment_size is not None:
            checks.positive_number(self.randaugment_size, "randaugment_size")
        checks.one_of(self.engine, "engine", ENGINES)
        self._check_engine()

    @property
    def mixes(self):
        """Whether `batch` does anything, for which labels must be one-hot."""
        return bool(self.mixup or self.cutmix or self.label_smoothing)

    @property
    def fuses(self):
        """Whether `boxes` followed by `finish` gives what `view` does."""
        return not self._crops_by_keras_cv

    def boxes(self, height, width, seed, image_size):
        """The window of an image to cut.

        Args:
            height: Integer or int32 scalar, the image's.
            width: As `height`.
            seed: Integer tensor `(2,)`.
            image_size: `(height, width)` that the window will be resized to.

        Returns:
            int32 `(4,)`: top, left, height, width.
        """
        return self._crop.box(height, width, seed, image_size)

    def finish(self, crop, seed, image_size):
        """Resizes a window that was cut and augments it: uint8 `(*image_size, C)`."""
        return self.image(resized(crop, image_size), seed)

    def view(self, image, seed, image_size):
        """Crops, resizes and augments a decoded image.

        Args:
            image: uint8 `(H, W, C)`.
            seed: Integer tensor `(2,)`.
            image_size: `(height, width)` of the result.

        Returns:
            uint8 `(*image_size, C)`.
        """
        if self._crops_by_keras_cv:
            crop = self._crop
            crop = keras_cv_engine.crop_and_resize(image, image_size, crop.area, crop.aspect)
            return self.image(crop, seed)
        sides = tf.shape(image)
        top, left, height, width = tf.unstack(self.boxes(sides[0], sides[1], seed, image_size))
        crop = tf.slice(image, [top, left, 0], [height, width, -1])
        crop = tf.ensure_shape(crop, (None, None, image.shape[-1]))
        return self.finish(crop, seed, image_size)

    def image(self, image, seed):
        """Augments one image after the crop: flip, RandAugment, GridMask, erasing.

        Args:
            image: uint8 `(H, W, C)`.
            seed: Integer tensor `(2,)`.

        Returns:
            uint8 `(H, W, C)`.
        """
        # The crop took `seed` itself, so that everything else takes seeds that follow from it.
        flip, operations, erasing = children(seed, 3)
        if self.flip:
            image = random_flip(image, flip)
        if self.randaugment and self.engine == "keras_cv":
            image = keras_cv_engine.randaugment(image, *self.randaugment)
        elif self.randaugment:
            image = randaugment(image, operations, *self.randaugment, self.randaugment_size)
        if self.grid_mask:
            image = keras_cv_engine.grid_mask(image)
        if self.erasing:
            image = random_erasing(image, erasing, self.erasing)
        return image

    def batch(self, images, one_hot, seed):
        """Mixes the images of a batch and their labels, and smooths the labels.

        Args:
            images: `(B, H, W, C)`; uint8 stays uint8, and is rounded.
            one_hot: Float `(B, K)`.
            seed: Integer tensor `(2,)`.

        Returns:
            Images and labels of the same shapes and dtypes.
        """
        if not self.mixes:
            return images, one_hot
        if not one_hot.dtype.is_floating or one_hot.shape.rank != 2:
            raise ValueError(
                "Mixup, CutMix and label smoothing need labels that are one-hot, float (B, K). "
                f"Received: labels of shape {one_hot.shape} and dtype {one_hot.dtype.name}"
            )
        one_hot = smoothed(one_hot, self.label_smoothing)
        if self.mixup and self.cutmix:
            mix = mixing.mixup_or_cutmix
            return mix(images, one_hot, seed, self.mixup, self.cutmix, self.mix_each)
        if self.mixup:
            return mixing.mixup(images, one_hot, seed, self.mixup, self.mix_each)
        if self.cutmix:
            return mixing.cutmix(images, one_hot, seed, self.cutmix, self.mix_each)
        return images, one_hot

    @property
    def _crop(self):
        return crops.CROPS[self.crop] if isinstance(self.crop, str) else self.crop

    @property
    def _crops_by_keras_cv(self):
        return self.engine == "keras_cv" and isinstance(self._crop, crops.InceptionCrop)

    def _check_engine(self):
        if self.engine == "keras_cv":
            keras_cv_engine.check_installed()
            if self.randaugment and self.randaugment[1] > 10:
                raise ValueError(
                    "keras-cv's RandAugment has magnitudes up to 10. Take engine='tf' for more. "
                    f"Received: randaugment={self.randaugment}"
                )
        elif self.grid_mask:
            raise ValueError(
                "GridMask is keras-cv's: pass `engine='keras_cv'` with it. "
                f"Received: grid_mask=True, engine={self.engine!r}"
            )


def _check_range(value, name, most=float("inf")):
    if isinstance(value, bool) or not 0 <= checks.number(value, name) <= most:
        limit = f" and at most {most}" if most < float("inf") else ""
        raise ValueError(f"`{name}` must be at least 0{limit}. Received: {name}={value!r}")


def _layers_and_magnitude(value):
    if isinstance(value, str) or not hasattr(value, "__len__") or len(value) != 2:
        raise ValueError(
            f"`randaugment` must be None or (layers, magnitude). Received: randaugment={value!r}"
        )
    layers, magnitude = value
    _check_range(magnitude, "magnitude")
    return checks.positive_integer(layers, "layers"), magnitude
