"""keras-cv's layers, where it is installed, and what is said where it is not."""

import importlib.util

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from augment_pictures import noise

from pipelines._tensorflow import tf
from pipelines.augment import Augment

here = importlib.util.find_spec("keras_cv") is not None


@pytest.mark.skipif(here, reason="keras-cv is installed")
def test_without_keras_cv_the_error_says_what_to_install():
    with pytest.raises(ImportError, match=r'pip install "keras3-vit\[keras-cv\]"'):
        Augment(engine="keras_cv")


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
