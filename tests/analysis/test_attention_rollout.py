"""Attention rollout: by hand, by another form of the same product, and what each model reads."""

import keras
import numpy as np
import pytest
import small_models as small
from small_models import build, expected

import keras_vit
from keras_vit.analysis import attention_rollout, plot_attention_rollout

# Prefix tokens: one, three, none, one of which nothing reads.
NAMES = ["plain", "timm", "relative_patches", "2d_shared_tokens", "2d", "learned_shared"]


def product(maps):
    """(layers, B, h, N, N) -> (B, N, N): later blocks on the left, a half of each the identity."""
    total = np.eye(maps[0].shape[-1])
    for each in maps:
        total = (each.mean(axis=1) + np.eye(each.shape[-1])) / 2 @ total
    return total


def grid(variant):
    return tuple(side // 8 for side in variant.spec["image_size"])


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_product(name):
    variant = small.variant(name)
    full = attention_rollout(variant.model, variant.images, full=True)
    np.testing.assert_allclose(full, product(expected(variant)["attention"]), atol=1e-5)
    np.testing.assert_allclose(full.sum(axis=-1), 1.0, atol=1e-5)


@pytest.mark.parametrize("name", ["plain", "timm"])
def test_the_class_tokens_row_is_read(name):
    variant = small.variant(name)
    prefix = {"plain": 1, "timm": 3}[name]
    rows = product(expected(variant)["attention"])[:, 0, prefix:]
    actual = attention_rollout(variant.model, variant.images)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, rows.reshape(-1, *grid(variant)), atol=1e-5)
    # What went to the class token and the registers is left out.
    sums = actual.sum(axis=(1, 2))
    assert (sums < 0.99).all() and (sums > 0.01).all()


# "avg", "max" with a class token that it does not read, all tokens without a class token.
@pytest.mark.parametrize(
    ("name", "prefix"), [("relative_patches", 0), ("learned_shared", 3), ("2d_shared_tokens", 1)]
)
def test_the_mean_of_the_patches_is_read_without_a_class_token(name, prefix):
    variant = small.variant(name)
    rows = product(expected(variant)["attention"])[:, prefix:, prefix:].mean(axis=1)
    actual = attention_rollout(variant.model, variant.images)
    np.testing.assert_allclose(actual, rows.reshape(-1, *grid(variant)), atol=1e-5)


def test_the_probes_attention_is_read_under_map_pooling():
    variant = small.variant("2d")
    model, result = variant.model, expected(variant)
    encoded = result["encoded"]  # the norm follows the pooling here, so these are its tokens
    weights = variant.weights
    query = np.einsum(
        "qc,chd->hqd",
        weights["map_pooling/probe"][0],
        weights["map_pooling/attention/query/kernel"],
    )
    query = query + weights["map_pooling/attention/query/bias"][:, None]
    key = np.einsum("bnc,chd->bhnd", encoded, weights["map_pooling/attention/key/kernel"])
    logits = np.einsum("hqd,bhkd->bhqk", query, key) / np.sqrt(8)  # a key's bias shifts all alike
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probe = (exponentials / exponentials.sum(axis=-1, keepdims=True)).mean(axis=1)  # (B, 1, N)
    wanted = (probe @ product(result["attention"]))[:, 0, 1:]
    actual = attention_rollout(model, variant.images)
    np.testing.assert_allclose(actual, wanted.reshape(-1, *grid(variant)), atol=1e-5)


@pytest.mark.parametrize(
    ("class_token", "registers"), [(False, 0), (True, 0), (True, 1), (True, 4)]
)
def test_any_number_of_prefix_tokens(class_token, registers):
    # 0, 1, 2 and 5 of them.
    fields = {"class_token": class_token, "num_registers": registers, "num_layers": 1}
    variant = build(include_top=False, pooling=None, **fields)
    prefix = class_token + registers
    rows = product(expected(variant)["attention"])
    row = rows[:, 0] if class_token else rows.mean(axis=1)
    actual = attention_rollout(variant.model, variant.images)
    np.testing.assert_allclose(actual, row[:, prefix:].reshape(-1, 3, 5), atol=1e-5)


def test_two_blocks_by_hand(monkeypatch):
    # Each row says how a token attends to (class, left, right).
    first = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]], "float32")
    second = np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], "float32")
    model = keras_vit.VisionTransformer((4, 8), 4, 2, 1, 4, 4, classes=2)
    for name, matrix in (("block_0", first), ("block_1", second)):
        block = model.get_layer(name)
        monkeypatch.setattr(block, "attention_weights", lambda tokens, m=matrix: m[None, None])
    images = np.zeros((1, 4, 8, 3), "float32")
    # With the identity: (first + I) / 2 maps left to (0, 1/2, 1/2), class to (1, 0, 0); the class
    # token's row of (second + I) / 2 is (1/2, 1/2, 0). So 1/2 (1, 0, 0) + 1/2 (0, 1/2, 1/2).
    full = attention_rollout(model, images, full=True)
    np.testing.assert_allclose(full[0, 0], [0.5, 0.25, 0.25], atol=1e-6)
    np.testing.assert_allclose(attention_rollout(model, images), [[[0.25, 0.25]]], atol=1e-6)
    # The other order would have given (first + I) / 2 the last word: (1/2, 1/2, 0).
    backwards = (first + np.eye(3)) / 2 @ ((second + np.eye(3)) / 2)
    np.testing.assert_allclose(backwards[0], [0.5, 0.5, 0.0], atol=1e-6)


@pytest.mark.parametrize("name", ["plain", "relative_patches"])
def test_the_map_is_a_row_of_the_product(name):
    # The map is rolled as one vector, which saves the product of the matrices.
    variant = small.variant(name)
    full = attention_rollout(variant.model, variant.images, full=True)
    read = full[:, 0, 1:] if name == "plain" else full.mean(axis=1)
    actual = attention_rollout(variant.model, variant.images)
    np.testing.assert_allclose(actual.reshape(len(read), -1), read, atol=1e-6)


def test_batches_do_not_matter():
    variant = small.variant("2d")  # the probe is read batch by batch too
    images = np.concatenate([variant.images, variant.images[:1]])
    together = attention_rollout(variant.model, images, batch_size=3)
    apart = attention_rollout(variant.model, images, batch_size=2)
    np.testing.assert_allclose(apart, together, atol=1e-6)


def test_mixed_precision():
    variant = build(dtype="mixed_bfloat16", num_registers=2)
    actual = attention_rollout(variant.model, variant.images)
    wanted = product(expected(variant)["attention"])[:, 0, 3:].reshape(-1, 3, 5)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, wanted, atol=0.02)


def test_a_resized_and_loaded_model(tmp_path):
    variant = small.variant("plain")
    keras_vit.resize(variant.model, image_size=(40, 24)).save(tmp_path / "model.keras")
    model = keras.saving.load_model(tmp_path / "model.keras")
    spec = {**variant.spec, "image_size": (40, 24)}
    resized = small.Small(model, spec, small.values(model), variant.images.transpose(0, 2, 1, 3))
    wanted = product(expected(resized)["attention"])[:, 0, 1:].reshape(-1, 5, 3)
    np.testing.assert_allclose(attention_rollout(model, resized.images), wanted, atol=1e-5)


def test_images_that_do_not_fit_are_refused():
    model = small.variant("plain").model
    for shape in ((2, 24, 48, 3), (24, 40), (0, 24, 40, 3)):
        with pytest.raises(ValueError, match=r"`images` must be \(batch, 24, 40, 3\).*Received: "):
            attention_rollout(model, np.zeros(shape, "float32"))


# --- The plot ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("drawing")
def test_plot_lights_each_image_where_the_rollout_is_large():
    variant = small.variant("plain")
    images = np.concatenate([variant.images, variant.images[:1]])
    figure = plot_attention_rollout(variant.model, images, columns=2)
    drawn = [axis.images[0].get_array() for axis in figure.axes if axis.images]
    assert len(figure.axes) == 8 and len(drawn) == 6  # two rows of two pairs, the last one blank
    for image, lit, pixels in zip(drawn[::2], drawn[1::2], images, strict=True):
        np.testing.assert_allclose(image, (pixels + 1) / 2, atol=1e-6)
        assert lit.shape == (24, 40, 3)
        assert np.all(lit <= image + 1e-6)  # over black
        assert np.abs(lit.max() - image.max()) < 0.2  # somewhere all is seen
        assert lit.min() == 0.0  # and somewhere nothing


@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize("name", ["sincos_every_layer", "wide_patches"])
def test_plot_takes_one_channel_and_four(name):
    variant = small.variant(name)
    figure = plot_attention_rollout(variant.model, variant.images[:1])
    assert all(axis.images[0].get_array().shape[-1] == 3 for axis in figure.axes)


@pytest.mark.usefixtures("drawing")
def test_plot_of_pixels_of_0_to_255():
    variant = build(include_preprocessing=True, num_layers=1)
    pixels = np.random.default_rng(0).integers(0, 256, (1, 24, 40, 3), "uint8")
    figure = plot_attention_rollout(variant.model, pixels)
    np.testing.assert_allclose(figure.axes[0].images[0].get_array(), pixels[0] / 255, atol=1e-6)
