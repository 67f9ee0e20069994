"""A mark for tests of tf.data alone, which no backend of Keras can change."""

import keras
import pytest

once = pytest.mark.skipif(
    keras.config.backend() != "tensorflow",
    reason="tf.data does the same under every backend, and is tested under one",
)
