"""What masked patch prediction sees and says."""

import numpy as np

from keras_vit.analysis.figures import as_rgb, mosaic, new_figure, remove_axes

TITLES = ("input", "corruption", "prediction")


def plot_reconstruction(model, images, batch_size=32):
    """Draws images, their corruption and the prediction, a row an image.

    Masked patches are grey; in the last column, every corrupted patch is what the model predicts
    (arXiv 2010.11929, section B.1.2).

    Args:
        model: A `keras_vit.MaskedPatchPrediction`.
        images: Array `(B, H, W, C)` as the model takes them.
        batch_size: Integer, images at a time.

    Returns:
        A `matplotlib.figure.Figure`.
    """
    result = model.reconstruct(images, batch_size)
    columns = [as_rgb(each) for each in (result.images, result.corrupted, result.predicted)]
    aspect = columns[0].shape[1] / columns[0].shape[2]
    figure = new_figure((4.8, 1.6 * aspect * len(columns[0]) + 0.4))
    axes = figure.subplots(1, len(columns), squeeze=False)
    remove_axes(axes)
    for axis, title, pictures in zip(axes.flat, TITLES, columns, strict=True):
        picture, _ = mosaic(pictures, columns=1)
        axis.imshow(np.clip(picture, 0.0, 1.0))
        axis.set_title(title)
    return figure
