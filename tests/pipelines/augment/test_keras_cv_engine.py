"""keras-cv's layers, where it is installed, and what is said where it is not."""

import importlib.util

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from augment_pictures import noise
from image_files import encoded, model_of, write

import pipelines
from pipelines._tensorflow import tf
from pipelines.augment import Augment, keras_cv_engine
from pipelines.feed.batches import without_autograph

here = importlib.util.find_spec("keras_cv") is not None


@pytest.mark.skipif(here, reason="keras-cv is installed")
def test_without_keras_cv_the_error_says_what_to_install():
    with pytest.raises(ImportError, match=r'pip install "keras3-vit\[keras-cv\]"'):
        Augment(engine="keras_cv")


def test_a_layer_may_branch_on_tensors_in_a_data_set_without_autograph():
    def layer(image, training):  # as keras-cv's Equalization does
        if tf.reduce_max(image) > 9:
            return image / 2
        return image + 300

    @without_autograph
    def halved(values):
        images = tf.data.Dataset.from_tensor_slices(values)
        return images.map(lambda image: keras_cv_engine._apply(layer, image))

    values = np.array([[[[8, 20, 41]]], [[[7, 8, 9]]]], "uint8")
    halves, full = halved(values).as_numpy_iterator()
    assert halves.tolist() == [[[4, 10, 20]]] and halves.dtype == "uint8"  # 20.5 to the even number
    assert full.tolist() == [[[255, 255, 255]]]


@pytest.mark.skipif(not here, reason="keras-cv is not installed")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "arguments", [{}, {"randaugment": (2, 10)}, {"grid_mask": True}], ids=["crop", "rand", "grid"]
)
def test_every_image_that_is_loaded_has_its_own_view(tmp_path, arguments):
    for number in range(8):  # the same picture
        write(tmp_path / "ab"[number % 2] / f"{number}.png", encoded(noise()))
    crop = "inception" if not arguments else "squash"
    augment = Augment(engine="keras_cv", crop=crop, flip=False, **arguments)
    train, _ = pipelines.load(
        str(tmp_path), model=model_of(2, (24, 36)), batch_size=8, augment=augment, validation=False
    )
    ((images, labels),) = train.as_numpy_iterator()
    assert images.shape == (8, 24, 36, 3) and images.dtype == "uint8"
    assert len(np.unique(images.reshape(8, -1), axis=0)) > 4
    assert sorted(labels.tolist()) == [0] * 4 + [1] * 4


@pytest.mark.skipif(not here, reason="keras-cv is not installed")
@pytest.mark.filterwarnings("ignore")
def test_keras_cv_crops_augments_and_masks():
    augment = Augment(engine="keras_cv", randaugment=(2, 10), grid_mask=True)
    assert not augment.fuses
    pictures = tf.data.Dataset.from_tensors(noise()).repeat(6)
    views = pictures.map(lambda picture: augment.view(picture, tf.constant([1, 2]), (24, 36)))
    views = np.stack(list(views.as_numpy_iterator()))
    assert views.shape == (6, 24, 36, 3) and views.dtype == "uint8"
    assert len(np.unique(views.reshape(6, -1), axis=0)) > 1
    with pytest.raises(ValueError, match="magnitudes up to 10"):
        Augment(engine="keras_cv", randaugment=(2, 15))
