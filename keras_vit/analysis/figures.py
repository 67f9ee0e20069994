"""Drawing shared by the plots; matplotlib is imported when the first one is drawn."""

import numpy as np


def new_figure(size):
    """An empty matplotlib figure of `(width, height)` inches.

    It is not one of pyplot's, which would keep it, warn of too many and choose a window for it.

    Raises:
        ImportError: if matplotlib is not installed, naming the extra that installs it.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Plots need matplotlib, which is not installed: pip install 'keras3-vit[plot]'"
        ) from error
    return Figure(figsize=size, layout="constrained")


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
    return np.clip(as_rgb(images), 0.0, 1.0)


def as_rgb(images):
    """Three channels of `(B, H, W, C)`: the first one as grey where there are fewer than three."""
    return np.repeat(images[..., :1], 3, -1) if images.shape[-1] < 3 else images[..., :3]


def mosaic(tiles, columns):
    """Tiles side by side in one picture, which draws much faster than an axis for each.

    Args:
        tiles: Array `(tiles, rows, columns)` of numbers or `(tiles, rows, columns, 3)` of colours.
        columns: Integer, tiles a row.

    Returns:
        The picture, with gaps that are drawn as nothing (NaN) or white, and the places of the
        tiles' first rows and of their first columns.
    """
    count, height, width = tiles.shape[:3]
    rows = -(-count // columns)
    gap = max(1, round(max(height, width) / 8))
    tops = np.arange(rows) * (height + gap)
    lefts = np.arange(columns) * (width + gap)
    blank = np.nan if tiles.ndim == 3 else 1.0
    shape = (tops[-1] + height, lefts[-1] + width, *tiles.shape[3:])
    picture = np.full(shape, blank, "float32")
    for tile, (row, column) in zip(tiles, np.ndindex(rows, columns), strict=False):
        top, left = tops[row], lefts[column]
        picture[top : top + height, left : left + width] = tile
    return picture, (tops, lefts)


def overlay(picture, values, blur, percentile=None):
    """A picture `(H, W, 3)` of 0 to 1, lit where a map `(rows, columns)` is large.

    The rendering of the paper's figure 6: enlarge by Lanczos, blur, stretch to 0..1, use as opacity
    over black.

    Args:
        picture: Floats of 0 to 1.
        values: The map.
        blur: The blur's radius in pixels.
        percentile: None, or the percentile above which the map is cut first.
    """
    from PIL import Image, ImageFilter

    if percentile is not None:
        values = np.minimum(values, np.percentile(values, percentile))
    mask = Image.fromarray(_stretched(values))
    mask = mask.resize((picture.shape[1], picture.shape[0]), Image.Resampling.LANCZOS)
    # The blur works on 8-bit pictures only.
    mask = Image.fromarray(np.uint8(255 * np.clip(np.asarray(mask), 0.0, 1.0) + 0.5))
    mask = np.asarray(mask.filter(ImageFilter.GaussianBlur(blur)))
    return picture * _stretched(mask)[..., None]


def _stretched(values):
    """float32, moved and scaled to 0..1."""
    values = np.asarray(values, "float32")
    return (values - values.min()) / max(float(values.max() - values.min()), 1e-12)
