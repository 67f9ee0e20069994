"""Small images in memory to batches: cropped at random to train, whole and in order to evaluate.

A whole batch is cropped at once, which for images of 28 pixels is several times faster than one by
one. `pipelines.load` takes any source and augmentation.
"""

from pipelines._tensorflow import tf
from pipelines.images.crops import random_boxes, resized_crops, whole_boxes


def training_batches(images, labels, image_size, batch_size, seed, smallest_crop=0.8):
    """One epoch after another of shuffled, randomly cropped and flipped images.

    The same seed gives the same pixels in the same order. Images that do not fill the last batch
    of an epoch are left out of that epoch.

    Args:
        images: uint8 array `(n, H, W, C)`.
        labels: Integer array `(n,)`.
        image_size: `(height, width)` of the batches, in pixels.
        batch_size: Integer, at most n.
        seed: Integer.
        smallest_crop: Float, the smallest side of a crop as a share of the image's.

    Returns:
        `tf.data.Dataset` of uint8 `(batch_size, *image_size, C)` and int32 `(batch_size,)`.

    Raises:
        ValueError: if `batch_size` is larger than the number of images.
    """
    if not 1 <= batch_size <= len(images):
        raise ValueError(
            f"`batch_size` must be from 1 to the number of images, {len(images)}. "
            f"Received: batch_size={batch_size}"
        )
    examples = tf.data.Dataset.from_tensor_slices((images, labels))
    examples = examples.shuffle(len(images), seed).batch(batch_size, drop_remainder=True)
    # One seed a batch, others in the next epoch.
    seeds = tf.data.Dataset.random(seed, rerandomize_each_iteration=True).batch(2)

    def crop(example, batch_seed):
        boxes = random_boxes(batch_size, batch_seed, smallest_crop)
        return resized_crops(example[0], boxes, image_size), example[1]

    batches = tf.data.Dataset.zip(examples, seeds)
    return batches.map(crop, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def evaluation_batches(images, labels, image_size, batch_size):
    """All images once and in order, whole, resized as in training.

    Args:
        images: uint8 array `(n, H, W, C)`.
        labels: Integer array `(n,)`.
        image_size: `(height, width)` of the batches, in pixels.
        batch_size: Integer; the last batch may be smaller.

    Returns:
        `tf.data.Dataset` of uint8 `(b, *image_size, C)` and int32 `(b,)`.
    """
    batches = tf.data.Dataset.from_tensor_slices((images, labels)).batch(batch_size)

    def whole(image, label):
        return resized_crops(image, whole_boxes(tf.shape(image)[0]), image_size), label

    return batches.map(whole, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
