"""Tokens after any block: against the NumPy reference."""

import keras
import numpy as np
import pytest
import small_models as small
import small_resnets
from small_models import expected

import keras_vit
from keras_vit.analysis import plot_representations, representations


@pytest.mark.parametrize("name", ["plain", "timm", "relative_patches", "learned_every_layer"])
def test_tokens_equal_the_reference(name):
    variant = small.variant(name)
    tokens = representations(variant.model, variant.images)
    wanted = np.stack(expected(variant)["tokens"])  # (layers, B, N, D)
    assert tokens.dtype == np.float32
    small.assert_close(tokens, wanted)


def test_blocks_are_chosen_by_index_or_name():
    variant = small.variant("plain")
    every = representations(variant.model, variant.images)
    for layers, indices in ((0, [0]), (-1, [1]), ("block_0", [0]), (["block_1", -2], [1, 0])):
        chosen = representations(variant.model, variant.images, layers)
        np.testing.assert_array_equal(chosen, every[indices])
    with pytest.raises(ValueError, match="Received: layers='norm'.*'block_0' to 'block_1'"):
        representations(variant.model, variant.images, "norm")


@pytest.mark.parametrize("name", ["plain", "2d_shared_tokens"])
def test_tokens_after_the_final_norm(name):
    variant = small.variant(name)
    result = expected(variant)
    last = representations(variant.model, variant.images, -1, norm=True)
    small.assert_close(last[0], result["encoded"])
    # An earlier block's pass the same norm.
    gamma, beta = variant.weights["norm/gamma"], variant.weights["norm/beta"]
    tokens = result["tokens"][0]
    centred = tokens - tokens.mean(axis=-1, keepdims=True)
    wanted = centred / np.sqrt(tokens.var(axis=-1, keepdims=True) + 1e-6) * gamma + beta
    small.assert_close(representations(variant.model, variant.images, 0, norm=True)[0], wanted)


def test_the_model_is_left_as_it_was():
    variant = small.variant("plain")
    config = variant.model.get_config()
    representations(variant.model, variant.images, norm=True)
    assert variant.model.get_config() == config
    assert variant.model.get_layer("norm").output is not None  # it has one place in the graph


def test_without_a_norm_over_tokens():
    variant = small.variant("2d")  # the norm follows the pooling
    tokens = representations(variant.model, variant.images, -1, norm=True)
    mean, deviation = tokens.mean(axis=-1), tokens.std(axis=-1)
    assert tokens.shape == (1, 2, 16, 24) and np.isfinite(tokens).all()
    assert np.abs(mean).max() < 1 and 0.3 < deviation.mean() < 3


def test_mixed_precision_batches_and_a_loaded_model(tmp_path):
    variant = small.build(dtype="mixed_bfloat16")
    variant.model.save(tmp_path / "model.keras")
    model = keras.saving.load_model(tmp_path / "model.keras")
    tokens = representations(model, iter(variant.images), batch_size=1, verbose=0)
    assert tokens.dtype == np.float32
    assert small.relative_error(tokens, np.stack(expected(variant)["tokens"])) < 0.03


def test_a_hybrid_and_a_resnet():
    model, _, _ = small_resnets.hybrid()
    images = small_resnets.random_images(model)
    assert representations(model, images).shape == (1, 2, 1 + 5 * 6, 24)
    resnet, _ = small_resnets.bit()
    with pytest.raises(ValueError, match="families 'vit'. Received: .*'bit'"):
        representations(resnet, images)


@pytest.mark.usefixtures("drawing")
def test_plot_shows_alike_patches_in_like_colours(monkeypatch):
    model = keras_vit.VisionTransformer((16, 24), 8, 2, 1, 8, 4, classes=2)
    images = np.random.default_rng(0).uniform(-1, 1, (2, 16, 24, 3))
    figure = plot_representations(model, images)
    assert [len(axis.images) for axis in figure.axes] == [1] * 6  # an image and two blocks, twice
    drawn = [axis.images[0].get_array() for axis in figure.axes]
    np.testing.assert_allclose(drawn[0], (images[0] + 1) / 2, atol=1e-6)
    assert drawn[1].shape == (2, 3, 3)
    # Two kinds of patches, two colours.
    tokens = np.zeros((1, 2, 7, 8), "float32")
    tokens[:, 0, 2::2] = np.arange(8)
    module = __import__("keras_vit.analysis.representations", fromlist=["representations"])
    monkeypatch.setattr(module, "representations", lambda *arguments, **options: tokens)
    first = plot_representations(model, images, layers=0).axes[1].images[0].get_array()
    patches = np.reshape(first, (6, 3))
    np.testing.assert_allclose(patches[1::2], patches[1:2].repeat(3, 0), atol=1e-6)
    np.testing.assert_allclose(patches[::2], patches[:1].repeat(3, 0), atol=1e-6)
    assert np.abs(patches[0] - patches[1]).max() > 0.9
