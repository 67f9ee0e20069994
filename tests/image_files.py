"""Image files for tests, written by Pillow, and what pipelines read instead of a model."""

import io
import types

import numpy as np
from PIL import Image

from keras_vit.models.spec import ViTSpec


def encoded(pixels, kind="PNG", **options):
    """The bytes of an image file: of an array, or of a Pillow image."""
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def flat(value, size=(5, 7)):
    """The bytes of a PNG whose pixels all have one value, by which it is known again."""
    return encoded(np.full((*size, 3), value, "uint8"))


def write(path, data):
    """Writes bytes, and the folders above them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def write_folder(root, classes):
    """`root/CLASS/NUMBER.png` for `{class: values}`, each image of one value."""
    for name, values in classes.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for i, value in enumerate(values):
            write(root / name / f"{i:03d}.png", flat(value))
    return str(root)


def model_of(classes, image_size=(4, 6), **fields):
    """Stands for a model that takes bytes, where only its spec is read."""
    fields = {"include_preprocessing": True, **fields}
    spec = ViTSpec(image_size, image_size, 1, 1, 8, 8, classes=classes, **fields)
    return types.SimpleNamespace(spec=spec)


def values(images):
    """The values of a batch of `flat` images, as integers."""
    images = np.asarray(images)
    assert (images == images[:, :1, :1, :1]).all()
    return images[:, 0, 0, 0].astype(int).tolist()


def place(host, hosts):
    """Stands for what `with pipelines.distribute(...)` gives on one of several hosts."""
    return types.SimpleNamespace(
        host=host, hosts=hosts, local_batch_size=lambda size: size // hosts
    )
