"""A sigmoid head that starts near the frequency of its classes."""

import numpy as np
import pytest
import small_models as small

import keras_vit


def test_each_class_starts_as_likely_as_one_of_many():
    model = small.build(num_layers=1, classes=7).model
    assert keras_vit.set_head_bias(model) is model
    bias = small.numpy(model.get_layer("head").bias)
    # ln 7 = 1.9459; the odds of each are then 1 to 7
    np.testing.assert_allclose(bias, np.full(7, -1.945910), rtol=1e-6)
    keras_vit.set_head_bias(model, -10)
    np.testing.assert_array_equal(small.numpy(model.get_layer("head").bias), np.full(7, -10.0))


def test_without_a_head_there_is_no_bias():
    with pytest.raises(ValueError, match="include_top=False"):
        keras_vit.set_head_bias(small.build(num_layers=1, include_top=False).model)
