"""How images must look to a model: facts that travel with its weights."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """The pixel range and the crop that a set of weights was trained or published with.

    Attributes:
        mean: Floats on the scale of 0 to 1, one for all channels or one a channel.
        std: As `mean`. A mean and std of 0.5 give the range [-1, 1] of the paper's code.
        crop_fraction: Float, the share of the resized image that evaluation crops.
        crop_mode: `"squash"` resizes to the model's size whatever the aspect; `"center"` resizes
            the shorter side to size / crop_fraction and crops the centre.
        resize_method: `"bilinear"` or `"bicubic"`, of the image.
        antialias: Whether that resize is antialiased when it shrinks.
    """

    mean: tuple = (0.5,)
    std: tuple = (0.5,)
    crop_fraction: float = 1.0
    crop_mode: str = "squash"
    resize_method: str = "bilinear"
    antialias: bool = False

    def __post_init__(self):
        for name in ("mean", "std"):
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
        if not all(value > 0 for value in self.std):
            raise ValueError(f"`std` must be positive. Received: std={self.std}")

    def check_channels(self, channels):
        """Raises a ValueError unless mean and std fit images of so many channels."""
        for name in ("mean", "std"):
            values = getattr(self, name)
            if len(values) not in (1, channels):
                raise ValueError(
                    f"`{name}` must have one value, or one for each of the {channels} channels. "
                    f"Received: {name}={values}"
                )
