"""The images that an analysis is given, in any form, as batches of NumPy arrays."""

import itertools

import keras
import numpy as np

from keras_vit.layers import checks


class ImageBatches:
    """Images as arrays `(b, H, W, C)` of at most `batch_size`, one after the other.

    Args:
        model: The model that takes them.
        images: An array or tensor `(B, H, W, C)`, one image `(H, W, C)`, or an iterable of either,
            alone or first in a tuple: a `tf.data.Dataset`, a `keras.utils.PyDataset`, a loader, a
            generator, a list. Larger batches of an iterable are cut, smaller ones joined.
        batch_size: Integer, images at a time; it bounds the memory.
        verbose: 1 shows a progress bar, 0 none, `"auto"` one where there is more than one batch.

    Attributes:
        count: The number of images, or None where only iterating tells.

    Raises:
        ValueError: if the images are not such as the model takes, or none, or endless.
    """

    def __init__(self, model, images, batch_size=8, verbose="auto"):
        self._batch_size = checks.positive_integer(batch_size, "batch_size")
        self._verbose = checks.one_of(verbose, "verbose", ("auto", 0, 1))
        self._wanted = tuple(model.inputs[0].shape[1:])
        self._images = _array(images)
        self.count = None
        if isinstance(self._images, np.ndarray):
            self._images = self._checked(self._images)
            self.count = len(self._images)
            if not self.count:
                self._refuse(self._images.shape)

    def __iter__(self):
        total = None if self.count is None else -(-self.count // self._batch_size)
        shown = total != 1 if self._verbose == "auto" else self._verbose
        bar = keras.utils.Progbar(total, verbose=int(shown), interval=0.5, unit_name="batch")
        done = 0
        for batch in self._batches():
            yield batch
            done += 1
            if done > 1 or self._verbose != "auto" or total is not None:
                bar.update(done)
        if not done:
            self._refuse("none at all")
        if total is None and (done > 1 or self._verbose != "auto"):
            bar.update(done, finalize=True)

    def whole(self):
        """All of them as one array `(B, H, W, C)`."""
        batches = list(self._batches())
        if not batches:
            self._refuse("none at all")
        return np.concatenate(batches)

    def _batches(self):
        if self.count is not None:
            for start in range(0, self.count, self._batch_size):
                yield self._images[start : start + self._batch_size]
            return
        each = (self._checked(_array(_first(element))) for element in self._elements())
        each = itertools.chain.from_iterable(each)
        while batch := list(itertools.islice(each, self._batch_size)):
            yield np.stack(batch)

    def _elements(self):
        images = self._images
        if isinstance(images, keras.utils.PyDataset):  # its iterator would never end
            return (images[i] for i in range(images.num_batches))
        if hasattr(images, "cardinality") and int(images.cardinality()) == -1:
            raise ValueError(
                "`images` must come to an end. "
                f"Received: images={images!r}, which repeats. Give `images.take(number)`."
            )
        if isinstance(images, (str, bytes, dict)) or not hasattr(images, "__iter__"):
            self._refuse(f"images={images!r}")
        return images

    def _checked(self, images):
        """The array as a batch, if the model takes it."""
        if not isinstance(images, np.ndarray):
            self._refuse(f"{type(images)}")
        batch = images[None] if images.ndim == 3 else images
        fits = batch.ndim == 4 and all(
            want in (None, size) for want, size in zip(self._wanted, batch.shape[1:], strict=True)
        )
        if not fits:
            self._refuse(f"images.shape={images.shape}")
        return batch

    def _refuse(self, received):
        raise ValueError(
            f"`images` must be (batch, {', '.join(map(str, self._wanted))}), as the model takes "
            "them, one such image or an iterable of them, and at least one. "
            f"Received: {received}"
        )


def gathered(results, count, axis=0):
    """The arrays of the batches joined along the axis of the images.

    With `count`, the number of images, known, the whole is never held twice.
    """
    if count is None:
        return np.concatenate(list(results), axis=axis)
    whole, done = None, 0
    for result in results:
        if whole is None:
            shape = (*result.shape[:axis], count, *result.shape[axis + 1 :])
            whole = np.empty(shape, result.dtype)
        stop = done + result.shape[axis]
        whole[(slice(None),) * axis + (slice(done, stop),)] = result
        done = stop
    return whole


def _array(images):
    """An array or tensor of any library as NumPy; anything else as it is."""
    if keras.ops.is_tensor(images):
        return keras.ops.convert_to_numpy(images)
    return np.asarray(images) if hasattr(images, "__array__") else images


def _first(element):
    """The images of an element of a dataset, which may have labels beside them."""
    return element[0] if isinstance(element, (tuple, list)) and element else element
