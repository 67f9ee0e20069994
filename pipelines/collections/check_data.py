"""What is wrong, and what is unusual, in a collection of images: every one is read and decoded."""

import collections
import concurrent.futures
import dataclasses
import hashlib
import io
import os

import keras
import numpy as np

from keras_vit.analysis.figures import new_figure
from pipelines._tensorflow import tf
from pipelines.feed.bad_images import reason_of
from pipelines.images.decoding import tensorflow_reason
from pipelines.sources.grammar import SPLITS, open_source
from pipelines.sources.source import Source

# What Pillow calls a file's content, by the suffixes that say so.
_CONTENT = {
    ".bmp": "BMP",
    ".gif": "GIF",
    ".jfif": "JPEG",
    ".jpe": "JPEG",
    ".jpeg": "JPEG",
    ".jpg": "JPEG",
    ".png": "PNG",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".webp": "WEBP",
}
_USUAL_MODES = ("RGB", "L")
_MODES = {"P": "palette", "I;16": "16 bits a channel", "1": "1 bit"}
_READ_AHEAD = 4  # images in memory for each thread


@dataclasses.dataclass(frozen=True)
class Facts:
    """What one image turned out to be.

    Attributes:
        origin: Its path, or what else it is called.
        label: As of `Source.labels`.
        digest: Hash of its bytes.
        size: `(height, width)` in pixels as stored; None where that cannot be read.
        fault: Why it cannot be decoded; None where it can.
        mislabelled: What it is where its suffix says something else; else None.
        odd: Texts such as "CMYK", "16 bits a channel", "3 frames".
    """

    origin: str
    label: object
    digest: bytes
    size: tuple | None = None
    fault: str | None = None
    mislabelled: str | None = None
    odd: tuple = ()


@dataclasses.dataclass(frozen=True)
class Report:
    """What was found.

    Attributes:
        class_names: Tuple of strings.
        splits: Dict from `"train"` and `"validation"` to lists of `Facts`.
    """

    class_names: tuple
    splits: dict

    @property
    def bad(self):
        """The `Facts` of images that cannot be decoded."""
        return [facts for facts in self._all() if facts.fault]

    @property
    def mislabelled(self):
        """The `Facts` of files whose suffix does not say what they are; they are read all right."""
        return [facts for facts in self._all() if facts.mislabelled]

    @property
    def odd(self):
        """The `Facts` of images that are converted when they are read."""
        return [facts for facts in self._all() if facts.odd]

    @property
    def in_both_splits(self):
        """Pairs of origins, `(training, validation)`, whose bytes are the same."""
        first = {facts.digest: facts.origin for facts in reversed(self.splits["train"])}
        held = self.splits.get("validation", [])
        return [(first[facts.digest], facts.origin) for facts in held if facts.digest in first]

    @property
    def repeated(self):
        """Lists of the origins within one split whose bytes are the same."""
        groups = collections.defaultdict(list)
        for split, images in self.splits.items():
            for facts in images:
                groups[split, facts.digest].append(facts.origin)
        return [group for group in groups.values() if len(group) > 1]

    @property
    def empty_classes(self):
        """Names of the classes of which there is no training image."""
        return [name for name, count in self.class_counts("train").items() if not count]

    @property
    def failed(self):
        """Whether anything makes training or its evaluation wrong."""
        return bool(self.bad or self.in_both_splits or self.empty_classes)

    def class_counts(self, split):
        """`{class name: images}` of a split."""
        labels = np.array([facts.label for facts in self.splits[split]])
        if labels.ndim == 2:
            counts = labels.sum(0)
        else:
            counts = np.bincount(labels, minlength=len(self.class_names))
        return dict(zip(self.class_names, counts.astype(int).tolist(), strict=True))

    def sizes(self):
        """Integers `(n, 2)`: height and width of every image whose size could be read."""
        sizes = [facts.size for facts in self._all() if facts.size]
        return np.array(sizes, "int64").reshape(-1, 2)

    def _all(self):
        return [facts for images in self.splits.values() for facts in images]


def check_data(source, class_names=None, progress=True):
    """Reads and decodes every image of a collection, in parallel.

    Args:
        source: As of `pipelines.load`.
        class_names: Strings in the order of the labels; None is the source's own.
        progress: Whether to show a progress bar.

    Returns:
        A `Report`.
    """
    parts = {split: open_source(source, split, class_names) for split in SPLITS}
    names = parts["train"].class_names
    if parts["validation"] is None:
        del parts["validation"]
    else:
        parts["validation"] = parts["validation"].relabel(names)
    total = sum(part.count for part in parts.values())
    bar = keras.utils.Progbar(total, unit_name="image", verbose=int(progress))
    splits = {split: _examined(part, bar) for split, part in parts.items()}
    return Report(names, splits)


def _examined(source, bar):
    """The `Facts` of all images of a source, read and decoded by several threads."""
    threads = os.cpu_count() or 1
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        waiting, facts = collections.deque(), []
        for item in _items(source):
            waiting.append(pool.submit(_examine, *item))
            if len(waiting) >= threads * _READ_AHEAD:
                facts.append(waiting.popleft().result())
                bar.add(1)
        for future in waiting:
            facts.append(future.result())
            bar.add(1)
    return facts


def _items(source):
    """`(origin, label, function to the image)`: bytes, or pixels."""
    if isinstance(source, Source):
        for i in range(source.count):
            number = tf.constant(i, "int64")
            yield source.origin(i), source.labels[i], lambda n=number: source.read(n).numpy()
    else:
        for i, (data, label) in enumerate(source.records().as_numpy_iterator()):
            yield f"record {i} of {source.name}", label, lambda data=data: data


def _examine(origin, label, read):
    try:
        data = read()
    except tf.errors.OpError as error:
        return Facts(origin, label, b"", fault=f"cannot be read: {tensorflow_reason(error)}")
    if not isinstance(data, bytes):
        return Facts(origin, label, _digest(data.tobytes()), size=data.shape[:2])
    return Facts(origin, label, _digest(data), fault=reason_of(data, 3), **_header(data, origin))


def _digest(data):
    return hashlib.blake2b(data, digest_size=16).digest()


def _header(data, origin):
    """Size, content and oddities, by Pillow; nothing where it cannot read the header."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            content = "JPEG" if image.format == "MPO" else image.format
            said = _CONTENT.get(os.path.splitext(origin)[1].lower(), content)
            return {
                "size": image.size[::-1],
                "mislabelled": None if said == content else content,
                "odd": tuple(_oddities(image, data)),
            }
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return {}


def _oddities(image, data):
    if image.mode not in _USUAL_MODES:
        yield _MODES.get(image.mode, image.mode)
    elif image.format == "PNG" and data[24] == 16:
        yield "16 bits a channel"
    if image.has_transparency_data:
        yield "transparent"
    if image.format != "MPO" and getattr(image, "n_frames", 1) > 1:
        yield f"{image.n_frames} frames"
    if image.getexif().get(0x0112, 1) != 1:
        yield f"EXIF orientation {image.getexif()[0x0112]}"


def plot_sizes(report):
    """A matplotlib figure: how wide, how high and of which shape the images are."""
    height, width = report.sizes().T
    figure = new_figure((10, 3))
    panels = {
        "width, pixels": width,
        "height, pixels": height,
        "width / height": width / np.maximum(height, 1),
    }
    for axis, (title, values) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        axis.hist(values, bins=40, color="tab:blue")
        axis.set(xlabel=title)
    figure.axes[0].set(ylabel="images")
    return figure
