"""Images in every form that people have them in."""

import types

import keras
import numpy as np
import pytest
import small_models as small

from keras_vit.analysis import attention_rollout
from keras_vit.analysis.images import ImageBatches, gathered

MODEL = types.SimpleNamespace(inputs=[types.SimpleNamespace(shape=(None, 4, 6, 3))])
IMAGES = np.random.default_rng(0).random((7, 4, 6, 3), "float32")


def batches(images, batch_size=3, verbose=0):
    return list(ImageBatches(MODEL, images, batch_size, verbose))


class Loader(keras.utils.PyDataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return IMAGES[4 * index :][:4], np.zeros(4)


FORMS = {
    "array": lambda: IMAGES,
    "tensor": lambda: keras.ops.convert_to_tensor(IMAGES),
    "list of images": lambda: list(IMAGES),
    "tuple of batches": lambda: (IMAGES[:5], IMAGES[5:]),
    "generator of images": lambda: (image for image in IMAGES),
    "generator of tensors": lambda: (keras.ops.convert_to_tensor(image) for image in IMAGES),
    "images with labels": lambda: ((image, 1) for image in IMAGES),
    "batches with labels and weights": lambda: iter([(IMAGES[:4], 0, 0), (IMAGES[4:], 0, 0)]),
    "lists, as PyTorch's loader has them": lambda: [[IMAGES[:4], 0], [IMAGES[4:], 0]],
    "one batch larger than wanted": lambda: iter([IMAGES]),
    "PyDataset": lambda: Loader(),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_batches(form):
    result = batches(FORMS[form]())
    assert [len(batch) for batch in result] == [3, 3, 1]
    np.testing.assert_array_equal(np.concatenate(result), IMAGES)
    np.testing.assert_array_equal(ImageBatches(MODEL, FORMS[form]()).whole(), IMAGES)


def test_a_dataset_of_tensorflow():
    tf = pytest.importorskip("tensorflow")
    dataset = tf.data.Dataset.from_tensor_slices((IMAGES, np.arange(7)))
    for each in (dataset, dataset.batch(2), dataset.batch(5), dataset.map(lambda x, y: x)):
        result = batches(each)
        assert [len(batch) for batch in result] == [3, 3, 1]
        np.testing.assert_array_equal(np.concatenate(result), IMAGES)
    with pytest.raises(ValueError, match="must come to an end.*take"):
        batches(dataset.repeat())


def test_one_image_is_a_batch_of_one():
    (batch,) = batches(IMAGES[0])
    np.testing.assert_array_equal(batch, IMAGES[:1])


@pytest.mark.parametrize(
    "images",
    [
        IMAGES[:0],
        IMAGES[..., :2],
        IMAGES.transpose(0, 2, 1, 3),
        [],
        iter([]),
        [IMAGES[0], IMAGES[0].T],
        "photograph.png",
        ["photograph.png"],
        {"image": IMAGES},
        None,
        IMAGES.tolist(),
    ],
    ids=lambda images: type(images).__name__,
)
def test_what_is_not_images_is_refused(images):
    with pytest.raises(ValueError, match=r"`images` must be \(batch, 4, 6, 3\).*Received: "):
        batches(images)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "`batch_size` must be an integer of at least 1"),
        ({"batch_size": 2.0}, "`batch_size` must be an integer"),
        ({"verbose": 2}, "`verbose` must be one of 'auto', 0, 1"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=f"{message}.*Received: "):
        batches(IMAGES, **arguments)


@pytest.mark.parametrize(
    ("images", "verbose", "shown"),
    [
        (IMAGES, "auto", "3/3"),
        (IMAGES, 0, ""),
        (IMAGES[:3], "auto", ""),  # one batch
        (IMAGES[:3], 1, "1/1"),
        (list(IMAGES), "auto", "3/Unknown"),
        (list(IMAGES[:3]), "auto", ""),
    ],
)
def test_the_progress_bar(images, verbose, shown, capsys):
    batches(images, verbose=verbose)
    printed = capsys.readouterr().out
    assert shown in printed and bool(printed) == bool(shown)


@pytest.mark.parametrize("count", [5, None])
@pytest.mark.parametrize("axis", [0, 1])
def test_batches_are_gathered_along_an_axis(count, axis):
    parts = [np.ones((2, 2, 3)), 2 * np.ones((2, 2, 3)), 3 * np.ones((2, 2, 3))]
    parts[2] = parts[2][:1] if axis == 0 else parts[2][:, :1]
    whole = gathered(iter(parts), count, axis)
    np.testing.assert_array_equal(np.moveaxis(whole, axis, 0)[:, 0, 0], [1, 1, 2, 2, 3])


def test_no_more_than_a_batch_is_read_ahead():
    read = []

    def photographs():
        for i, image in enumerate(IMAGES):
            read.append(i)
            yield image

    for number, _ in enumerate(ImageBatches(MODEL, photographs(), 2, 0), start=1):
        assert len(read) <= 2 * number


def test_an_analysis_of_a_generator_equals_that_of_an_array():
    variant = small.variant("plain")
    from_array = attention_rollout(variant.model, variant.images)
    labelled = ((image, 0) for image in variant.images)
    np.testing.assert_allclose(
        attention_rollout(variant.model, labelled, batch_size=1, verbose=0), from_array, atol=1e-6
    )
    one = attention_rollout(variant.model, variant.images[1])
    np.testing.assert_allclose(one, from_array[1:], atol=1e-6)
