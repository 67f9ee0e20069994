"""Drawing shared by the plots; matplotlib is imported when the first one is drawn."""

import numpy as np


def pyplot():
    """matplotlib's pyplot.

    Raises:
        ImportError: if matplotlib is not installed, naming the extra that installs it.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "Plots need matplotlib, which is not installed: pip install 'keras3-vit[plot]'"
        ) from error
    return pyplot


def remove_axes(axes):
    """Takes ticks and frames from all axes of a figure; unused ones stay blank."""
    for axis in axes.flat:
        axis.axis("off")


def displayable(images, spec):
    """Images as a model takes them, as floats `(B, H, W, 3)` from 0 to 1.

    One channel is shown as grey; of more than three the first three are shown.
    """
    images = np.asarray(images, "float32")
    if spec.include_preprocessing:
        images = images / 255.0
    else:
        facts = spec.preprocessing
        images = images * np.asarray(facts.std, "float32") + np.asarray(facts.mean, "float32")
    images = np.repeat(images[..., :1], 3, -1) if images.shape[-1] < 3 else images[..., :3]
    return np.clip(images, 0.0, 1.0)


def overlay(picture, values, patch_size):
    """A picture `(H, W, 3)` of 0 to 1, lit where a map `(rows, columns)` is large.

    The rendering of the paper's figure 6: enlarge by Lanczos, blur by a patch, stretch to 0..1,
    use as opacity over black.
    """
    from PIL import Image, ImageFilter

    mask = Image.fromarray((values / max(values.max(), 1e-12)).astype("float32"))
    mask = mask.resize((picture.shape[1], picture.shape[0]), Image.Resampling.LANCZOS)
    # The blur works on 8-bit pictures only.
    mask = Image.fromarray(np.uint8(255 * np.clip(np.asarray(mask), 0.0, 1.0)))
    mask = np.asarray(mask.filter(ImageFilter.GaussianBlur(patch_size)), "float32")
    spread = max(float(mask.max() - mask.min()), 1e-12)
    return picture * ((mask - mask.min()) / spread)[..., None]
