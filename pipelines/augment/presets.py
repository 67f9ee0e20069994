"""Named augmentations: the seven of AugReg, and what BiT fine-tunes with."""

from pipelines.augment.policy import Augment

# RandAugment (layers, magnitude) and the alpha of Mixup, arXiv 2106.10270 section 3.2. All crop as
# Inception does and flip. "light1" is no rest: at magnitude 0 Invert and Solarize still invert, and
# Brightness leaves a tenth of the light.
PRESETS = {
    "none": Augment(),
    "light1": Augment(randaugment=(2, 0)),
    "light2": Augment(randaugment=(2, 10), mixup=0.2),
    "medium1": Augment(randaugment=(2, 15), mixup=0.2),
    "medium2": Augment(randaugment=(2, 15), mixup=0.5),
    "strong1": Augment(randaugment=(2, 20), mixup=0.5),
    "strong2": Augment(randaugment=(2, 20), mixup=0.8),
    # Adds Mixup of 0.1 where there are 20,000 examples or more.
    "bit": Augment(crop="bit"),
}


def augmentation(preset):
    """The augmentation of a name, or the one that is given.

    Args:
        preset: A name of `PRESETS`; an `Augment`; or None, which changes nothing but the size.
            The preset `"none"` is AugReg's and does crop and flip.

    Returns:
        An `Augment`.

    Raises:
        ValueError: if there is no such preset.

    Example:

    >>> augment = dataclasses.replace(augmentation("medium1"), erasing=0.25)
    """
    if preset is None:
        return Augment(crop="squash", flip=False)
    if isinstance(preset, Augment):
        return preset
    if isinstance(preset, str) and preset in PRESETS:
        return PRESETS[preset]
    raise ValueError(
        f"`augment` must be an `Augment`, None, or one of {', '.join(map(repr, PRESETS))}. "
        f"Received: augment={preset!r}"
    )
