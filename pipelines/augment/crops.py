"""Which window of an image is cut: boxes `(top, left, height, width)` in whole pixels, int32.

A box needs the size of the image and not its pixels, so it can be drawn before a JPEG is decoded
and only that part of it decoded. Where a recipe resizes first and crops after, the box is the same
window on the image as it was; they differ by the rounding of its edges to whole pixels.
"""

import dataclasses

from pipelines._tensorflow import tf

BIT = "bit"
SMALL_AREA = 96 * 96  # what BiT calls a small image (arXiv 1912.11370, section 3.3)


@dataclasses.dataclass(frozen=True)
class InceptionCrop:
    """A window of random area, shape and place.

    The shape is drawn, then a height among those that give an area within the bounds; a window that
    does not fit is drawn anew, and after 100 attempts it is the whole image.

    Attributes:
        area: Smallest and largest share of the image's area. The recipes of the paper's authors
            take 0.05 to 1, others 0.08 to 1.
        aspect: Smallest and largest width / height.
    """

    area: tuple = (0.05, 1.0)
    aspect: tuple = (3 / 4, 4 / 3)

    def __post_init__(self):
        _check_bounds(self.area, "area", most=1.0)
        _check_bounds(self.aspect, "aspect")

    def box(self, height, width, seed, image_size):
        # The op ends with a slice of a batch's boxes, which costs more than the box itself.
        begin, size, _ = tf.raw_ops.StatelessSampleDistortedBoundingBox(
            image_size=tf.stack([height, width, 1]),
            bounding_boxes=tf.constant([[[0.0, 0.0, 1.0, 1.0]]]),
            min_object_covered=0.0,
            seed=seed,
            aspect_ratio_range=self.aspect,
            area_range=self.area,
            max_attempts=100,
        )
        return tf.concat([begin[:2], size[:2]], axis=0)


@dataclasses.dataclass(frozen=True)
class RandomCrop:
    """A window of a fixed share of the image at a random place: resize, then crop at random.

    Attributes:
        fraction: The side that is cropped over the side that is resized to, such as 384 / 448; or
            `"bit"`, 128 / 160 for images of less than 96 x 96 pixels and 384 / 448 for others.
        squash: True resizes to the shape of the model whatever the aspect, so that the window has
            the image's own aspect (BiT); False resizes until the image covers that shape, and the
            window has the model's.
    """

    fraction: float | str = 384 / 448
    squash: bool = False

    def __post_init__(self):
        _check_fraction(self.fraction, (BIT,))

    def box(self, height, width, seed, image_size):
        window = _window(height, width, self.fraction, self.squash, image_size)
        room = tf.stack([height, width]) - window
        place = tf.random.stateless_uniform((2,), seed) * tf.cast(room + 1, "float32")
        # The product may round up to room + 1.
        return tf.concat([tf.minimum(tf.cast(place, "int32"), room), window], axis=0)


@dataclasses.dataclass(frozen=True)
class CentralCrop:
    """The middle of the image, of a fixed share; see `RandomCrop`."""

    fraction: float | str = 384 / 448
    squash: bool = False

    def __post_init__(self):
        _check_fraction(self.fraction, (BIT,))

    def box(self, height, width, seed, image_size):
        del seed
        window = _window(height, width, self.fraction, self.squash, image_size)
        return tf.concat([(tf.stack([height, width]) - window) // 2, window], axis=0)


@dataclasses.dataclass(frozen=True)
class Whole:
    """The whole image, which a resize then squashes to the shape of the model."""

    def box(self, height, width, seed, image_size):
        del seed, image_size
        return tf.stack([0, 0, height, width])


def bit_sizes(height, width):
    """The `(resize, crop)` of BiT's rule for images of a size, in pixels."""
    return (160, 128) if height * width < SMALL_AREA else (448, 384)


def _window(height, width, fraction, squash, image_size):
    """Height and width of a window, int32 `(2,)`, at least one pixel each."""
    sides = tf.cast(tf.stack([height, width]), "float32")
    if fraction == BIT:
        fraction = tf.where(height * width < SMALL_AREA, 128 / 160, 384 / 448)
    if not squash:
        wanted = tf.constant(image_size, "float32")
        sides = wanted * tf.reduce_min(sides / wanted)
    return tf.maximum(tf.cast(tf.round(sides * fraction), "int32"), 1)


def _check_fraction(value, names):
    if value in names:
        return
    if isinstance(value, (str, bool)) or not 0 < value <= 1:
        raise ValueError(
            "`fraction` must be a number above 0 and at most 1, or 'bit'. "
            f"Received: fraction={value!r}"
        )


def _check_bounds(bounds, name, most=float("inf")):
    if len(bounds) != 2 or not 0 < bounds[0] <= bounds[1] <= most:
        limit = f" and at most {most}" if most < float("inf") else ""
        raise ValueError(
            f"`{name}` must be two numbers above 0{limit}, the smaller first. "
            f"Received: {name}={bounds!r}"
        )


CROPS = {
    "inception": InceptionCrop(),
    "inception_8": InceptionCrop(area=(0.08, 1.0)),
    # Small images of one centred thing lose it in less: sides of four fifths and more.
    "slight": InceptionCrop(area=(0.64, 1.0), aspect=(4 / 5, 5 / 4)),
    "random": RandomCrop(),
    "bit": RandomCrop("bit", squash=True),
    "center": CentralCrop(),
    "squash": Whole(),
}

KINDS = (InceptionCrop, RandomCrop, CentralCrop, Whole)
