"""Augmentation is TensorFlow's work whatever the backend, and is tested with one of them."""

import keras
import pytest


@pytest.fixture(autouse=True)
def on_one_backend():
    if keras.config.backend() != "tensorflow":
        pytest.skip("tf.data does this without the Keras backend: tested with TensorFlow's")
