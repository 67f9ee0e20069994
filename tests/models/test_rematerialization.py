"""Blocks that are computed twice: the same gradients and random numbers as once."""

import keras
import numpy as np
import pytest
import small_models as small
from small_resnets import bit

import keras_vit

RATES = {"dropout_rate": 0.3, "attention_dropout_rate": 0.2, "drop_path_rate": 0.4}


def trained(rematerialized):
    """Two steps; the weights and the states of the random generators, in order."""
    keras.utils.set_random_seed(3)
    variant = small.build(num_layers=2, layer_scale=0.5, **RATES)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    variant.model.compile(keras_vit.optimizers.SGD(0.1), loss)
    if rematerialized:
        assert keras_vit.rematerialize(variant.model) is variant.model
    variant.model.fit(variant.images, np.array([1, 0]), epochs=2, verbose=0, shuffle=False)
    return [(v.path, np.array(small.numpy(v))) for v in variant.model.variables]


def test_weights_and_random_states_are_the_same(as_users_run_it):
    once, twice = trained(False), trained(True)
    assert sum("seed" in path for path, _ in once) == 11
    for (path, wanted), (_, value) in zip(once, twice, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6, err_msg=path)


def test_the_blocks_are_computed_a_second_time(monkeypatch):
    variant = small.build(num_layers=1)
    model = keras_vit.rematerialize(variant.model)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    remat, used = keras.remat, []
    monkeypatch.setattr(keras, "remat", lambda function: used.append(1) or remat(function))
    model.fit(variant.images, np.array([1, 0]), verbose=0)
    assert used
    used.clear()
    small.call(model, variant.images)  # nothing to save in inference
    keras_vit.rematerialize(model, enabled=False)
    model.fit(variant.images, np.array([1, 0]), verbose=0)
    assert not used


def test_a_resnet_has_no_blocks():
    with pytest.raises(ValueError, match="family 'bit'"):
        keras_vit.rematerialize(bit()[0])
