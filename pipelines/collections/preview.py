"""A look at training images as the model will get them."""

import numpy as np

import keras_vit
from keras_vit.analysis.figures import as_rgb, new_figure
from pipelines.loading import load
from pipelines.sources.grammar import open_source

_MOST_LABELS = 2  # that a mixed image is captioned with


def preview(source, image_size=(224, 224), augment=None, seed=0, rows=4, columns=6):
    """A matplotlib figure of the first training batch, augmented, with labels.

    Args:
        source: As of `pipelines.load`.
        image_size: `(height, width)` in pixels.
        augment: As of `pipelines.load`.
        seed: Integer.
        rows: Integer, of the grid.
        columns: Integer, of the grid.
    """
    opened = open_source(source, "train")
    count = min(rows * columns, opened.count)
    model = _model_of(image_size, opened)
    train, _ = load(
        opened, model=model, batch_size=count, augment=augment, seed=seed, validation=False
    )
    images, labels = next(train.as_numpy_iterator())
    figure = new_figure((1.6 * columns, 1.8 * rows))
    for i, axis in enumerate(figure.subplots(rows, columns, squeeze=False).flat):
        axis.axis("off")
        if i < count:
            axis.imshow(as_rgb(images[i]))
            axis.set_title(_caption(labels[i], opened.class_names), fontsize=7)
    return figure


def _model_of(image_size, source):
    """The smallest model that takes such images; its weights are of no interest."""
    return keras_vit.VisionTransformer(
        image_size=image_size,
        patch_size=image_size,
        num_layers=1,
        num_heads=1,
        hidden_dim=1,
        mlp_dim=1,
        classes=len(source.class_names),
        include_preprocessing=True,
    )


def _caption(label, names):
    if np.ndim(label) == 0:
        return names[label]
    order = [i for i in np.argsort(-label, kind="stable") if label[i] > 0]
    words = [names[i] if label[i] == 1 else f"{names[i]} {label[i]:.0%}" for i in order]
    return " + ".join(words[:_MOST_LABELS]) + (" ..." if len(words) > _MOST_LABELS else "")
