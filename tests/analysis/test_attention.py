"""Attention maps: against the NumPy reference, and what capturing them must leave alone."""

import keras
import numpy as np
import pytest
import small_models as small
from small_models import build, call, expected, numpy

import keras_vit
from keras_vit.analysis import attention, plot_attention

# The kinds of attention there are: plain, relative, query-key norm, three prefix tokens or none.
NAMES = ["plain", "relative", "timm", "2d_shared_tokens", "relative_patches", "learned_every_layer"]


@pytest.mark.parametrize("name", NAMES)
def test_maps_equal_the_reference(name):
    variant = small.variant(name)
    maps = attention(variant.model, variant.images)
    wanted = np.stack(expected(variant)["attention"])  # (layers, B, h, N, N)
    assert maps.dtype == np.float32
    assert maps.shape == wanted.shape
    np.testing.assert_allclose(maps, wanted, atol=1e-5)
    np.testing.assert_allclose(maps.sum(axis=-1), 1.0, atol=1e-5)


@pytest.mark.parametrize("name", ["plain", "relative"])
def test_maps_times_values_are_what_the_fused_attention_computes(name):
    variant = small.variant(name)
    model = variant.model
    block = model.get_layer("block_1")
    tokens = keras.Model(model.input, block.input)(variant.images)
    normed = block.attention_norm(tokens)
    fused = numpy(block.attention(normed))
    maps = attention(model, variant.images, layers=1)[0]  # (B, h, N, N)
    mixed = np.einsum("bhqk,bkhd->bqhd", maps, numpy(block.attention.value(normed)))
    by_hand = numpy(block.attention.output_projection(mixed))
    np.testing.assert_allclose(by_hand, fused, atol=1e-5 * np.abs(fused).max())


def test_the_model_is_left_as_it_was():
    variant = small.variant("plain")
    before, config = call(variant.model, variant.images), variant.model.get_config()
    attention(variant.model, variant.images)
    np.testing.assert_array_equal(call(variant.model, variant.images), before)
    assert variant.model.get_config() == config
    small.assert_equal(small.values(variant.model), variant.weights)


def test_dropout_is_off():
    variant = small.variant("rates")
    maps = attention(variant.model, variant.images)
    np.testing.assert_allclose(maps, np.stack(expected(variant)["attention"]), atol=1e-5)


@pytest.mark.parametrize(
    ("layers", "indices"),
    [
        (None, [0, 1]),
        (1, [1]),
        (-1, [1]),
        ([1, 0], [1, 0]),
        ((-2,), [0]),
        ("block_1", [1]),
        (["block_1", 0], [1, 0]),
    ],
)
def test_blocks_are_chosen_by_index_or_name(layers, indices):
    variant = small.variant("plain")
    every = attention(variant.model, variant.images)
    np.testing.assert_array_equal(attention(variant.model, variant.images, layers), every[indices])


def test_the_mean_over_heads():
    variant = small.variant("plain")
    every = attention(variant.model, variant.images)
    mean = attention(variant.model, variant.images, reduce="heads")
    np.testing.assert_allclose(mean, every.mean(axis=2), atol=1e-6)


def test_batches_do_not_matter():
    variant = small.variant("plain")
    images = np.concatenate([variant.images, variant.images[:1]])
    together = attention(variant.model, images, batch_size=3)
    np.testing.assert_allclose(attention(variant.model, images, batch_size=2), together, atol=1e-6)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision(policy):
    variant = build(dtype=policy, position_embedding="relative", num_registers=2)
    maps = attention(variant.model, variant.images)
    assert maps.dtype == np.float32
    np.testing.assert_allclose(maps.sum(axis=-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(maps, np.stack(expected(variant)["attention"]), atol=0.05)


def test_a_loaded_model_and_one_on_pixels(tmp_path):
    inputs = keras.Input((24, 40, 3))
    variant = build(input_tensor=keras.layers.Rescaling(2.0, offset=-1.0)(inputs))
    variant.model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    maps = attention(loaded, (variant.images + 1) / 2)
    np.testing.assert_allclose(maps, np.stack(expected(variant)["attention"]), atol=1e-5)


def test_a_resized_model():
    variant = small.variant("plain")
    model = keras_vit.resize(variant.model, image_size=(40, 24))
    spec = {**variant.spec, "image_size": (40, 24)}
    resized = small.Small(model, spec, small.values(model), variant.images.transpose(0, 2, 1, 3))
    maps = attention(model, resized.images)
    np.testing.assert_allclose(maps, np.stack(expected(resized)["attention"]), atol=1e-5)


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((2, 24, 48, 3)),
        np.zeros((24, 40)),
        np.zeros((40, 24, 3)),
        np.zeros((2, 24, 40, 1)),
        np.zeros((0, 24, 40, 3)),
    ],
    ids=lambda images: str(images.shape),
)
def test_images_that_do_not_fit_are_refused(images):
    with pytest.raises(ValueError, match=r"`images` must be \(batch, 24, 40, 3\).*Received: "):
        attention(small.variant("plain").model, images.astype("float32"))


def test_blocks_and_reductions_that_do_not_exist_are_refused():
    variant = small.variant("plain")
    for layers in (2, -3, [0, 5], [], "block_2", "norm", True):
        with pytest.raises(ValueError, match="the model's 2 blocks, from -2 to 1. Received: "):
            attention(variant.model, variant.images, layers=layers)
    with pytest.raises(ValueError, match="`reduce` must be one of 'heads', None. Received: "):
        attention(variant.model, variant.images, reduce="tokens")


# --- The plot ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize("name", ["plain", "relative_patches"])
def test_plot_draws_the_image_and_a_picture_for_each_head(name):
    variant = small.variant(name)
    figure = plot_attention(variant.model, variant.images[0], layer=0)
    maps = expected(variant)["attention"][0][0]  # (h, N, N)
    # The class token's row, or the mean of all.
    rows = maps[:, 0, 1:] if name == "plain" else maps.mean(axis=1)
    drawn = [axis for axis in figure.axes if axis.images]
    assert len(drawn) == 1 + 3
    np.testing.assert_allclose(
        drawn[0].images[0].get_array(), (variant.images[0] + 1) / 2, atol=1e-6
    )
    for axis, row in zip(drawn[1:], rows, strict=True):
        grid = (3, 5) if name == "plain" else (5, 3)
        np.testing.assert_allclose(axis.images[0].get_array(), row.reshape(grid), atol=1e-5)
    assert "block 0" in figure.get_suptitle()


def test_plot_does_not_choose_among_images():
    variant = small.variant("plain")
    with pytest.raises(ValueError, match="`image` must be one image.*Received: 2 images"):
        plot_attention(variant.model, variant.images)
