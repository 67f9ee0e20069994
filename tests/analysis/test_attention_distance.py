"""Mean attention distance: known constants, NumPy written for it, hybrids and both definitions."""

import math

import numpy as np
import pytest
import small_models as small
import small_resnets
from small_models import expected

import keras_vit
from keras_vit.analysis import attention_distance, plot_attention_distance


def uniform(model):
    """The model with attention that is the same everywhere: its queries are zero."""
    for variable in model.weights:
        if "/query/" in variable.path:
            variable.assign(np.zeros(variable.shape))
    return model


def mean_distance(rows, columns, height, width):
    """Between two random points of a grid, summed over the offsets there are."""
    total = sum(
        (rows - abs(i)) * (columns - abs(j)) * math.sqrt((i * height) ** 2 + (j * width) ** 2)
        for i in range(1 - rows, rows)
        for j in range(1 - columns, columns)
    )
    return total / (rows * columns) ** 2


def by_hand(maps, prefix, grid, patch, renormalize):
    """(B, h, N, N) -> (h,), query by query."""
    places = [(patch[0] * i, patch[1] * j) for i in range(grid[0]) for j in range(grid[1])]
    means = np.zeros(maps.shape[1])
    for image in maps:
        for head, rows in enumerate(image):
            for query, here in enumerate(places):
                row = rows[prefix + query, prefix:]
                row = row / row.sum() if renormalize else row
                far = [math.dist(here, there) for there in places]
                means[head] += row @ far
    return means / (len(maps) * len(places))


@pytest.mark.parametrize(("patch", "pixels"), [(16, 116.49), (32, 115.5)])
def test_uniform_attention_at_224_pixels(patch, pixels):
    model = uniform(keras_vit.VisionTransformer(224, patch, 2, 2, 4, 4, classes=2))
    images = np.random.default_rng(0).uniform(-1, 1, (1, 224, 224, 3))
    distances = attention_distance(model, images)
    assert distances.shape == (2, 2) and distances.dtype == np.float32
    np.testing.assert_allclose(distances, pixels, atol=0.05 if patch == 32 else 0.005)
    # As published, the share of the class token is lost: one of 197 or 50.
    tokens = (224 // patch) ** 2
    published = attention_distance(model, images, renormalize=False)
    np.testing.assert_allclose(published, distances * tokens / (tokens + 1), rtol=1e-5)


def test_attention_of_each_patch_to_itself_is_zero(monkeypatch):
    model = keras_vit.VisionTransformer((32, 48), 16, 1, 2, 4, 4, classes=2)
    identity = np.broadcast_to(np.eye(7, dtype="float32"), (1, 2, 7, 7))
    monkeypatch.setattr(model.get_layer("block_0"), "attention_weights", lambda tokens: identity)
    assert attention_distance(model, np.zeros((1, 32, 48, 3))).tolist() == [[0.0, 0.0]]


def test_one_query_by_hand(monkeypatch):
    # Two rows of three patches, 16 high and 20 wide: all look at the last patch, at (16, 40).
    model = keras_vit.VisionTransformer((32, 60), (16, 20), 1, 1, 4, 4, classes=2)
    weights = np.zeros((1, 1, 7, 7), "float32")
    weights[..., 0], weights[..., -1] = 0.75, 0.25  # most of it at the class token
    monkeypatch.setattr(model.get_layer("block_0"), "attention_weights", lambda tokens: weights)
    images = np.zeros((1, 32, 60, 3))
    far = (math.hypot(16, 40) + math.hypot(16, 20) + 16 + 40 + 20 + 0) / 6
    np.testing.assert_allclose(attention_distance(model, images), [[far]], rtol=1e-6)
    published = attention_distance(model, images, renormalize=False)
    np.testing.assert_allclose(published, [[far / 4]], rtol=1e-6)


# Rectangular patches, four channels; three, one and no tokens before the patches.
@pytest.mark.parametrize(
    ("name", "prefix", "patch"),
    [("wide_patches", 1, (8, 10)), ("timm", 3, (8, 8)), ("relative_patches", 0, (8, 8))],
)
@pytest.mark.parametrize("renormalize", [True, False])
def test_distances_equal_numpys(name, prefix, patch, renormalize):
    variant = small.variant(name)
    grid = tuple(side // part for side, part in zip(variant.spec["image_size"], patch, strict=True))
    maps = expected(variant)["attention"]
    wanted = [by_hand(each, prefix, grid, patch, renormalize) for each in maps]
    actual = attention_distance(variant.model, variant.images, renormalize=renormalize)
    np.testing.assert_allclose(actual, wanted, rtol=2e-5)
    last = attention_distance(variant.model, variant.images, "block_1", renormalize)
    np.testing.assert_allclose(last, wanted[1:], rtol=2e-5)


def test_a_hybrids_patches_are_as_far_apart_as_its_strides_make_them():
    # 34 x 41 pixels, halved three times and rounded up: 5 x 6 places, 8 pixels apart.
    model, _, _ = small_resnets.hybrid()
    distances = attention_distance(uniform(model), small_resnets.random_images(model))
    np.testing.assert_allclose(distances, mean_distance(5, 6, 8, 8), rtol=1e-5)


def test_batches_do_not_matter():
    variant = small.variant("plain")
    images = np.concatenate([variant.images, variant.images[:1]])
    together = attention_distance(variant.model, images, batch_size=3)
    apart = attention_distance(variant.model, iter(images), batch_size=2, verbose=0)
    np.testing.assert_allclose(apart, together, rtol=1e-5)


def test_mixed_precision():
    variant = small.build(dtype="mixed_bfloat16")
    wanted = [by_hand(each, 1, (3, 5), (8, 8), True) for each in expected(variant)["attention"]]
    actual = attention_distance(variant.model, variant.images)
    np.testing.assert_allclose(actual, wanted, rtol=0.02)


def test_a_resized_model():
    model = uniform(keras_vit.resize(small.build().model, image_size=(40, 32)))
    distances = attention_distance(model, np.zeros((1, 40, 32, 3)))
    np.testing.assert_allclose(distances, mean_distance(5, 4, 8, 8), rtol=1e-5)


def test_a_model_without_attention_is_refused():
    model, _ = small_resnets.bit()
    with pytest.raises(ValueError, match="families 'vit'. Received: .*'bit'"):
        attention_distance(model, small_resnets.random_images(model))


@pytest.mark.usefixtures("drawing")
def test_plot_has_a_point_for_each_head_and_block():
    variant = small.variant("plain")
    (axis,) = plot_attention_distance(variant.model, variant.images).axes
    distances = attention_distance(variant.model, variant.images)
    points = [points.get_offsets() for points in axis.collections]
    np.testing.assert_allclose([each[:, 1] for each in points], distances.T, rtol=1e-6)
    np.testing.assert_array_equal([each[:, 0] for each in points], [[0, 1]] * 3)
    assert axis.get_ylabel() == "Mean attention distance (pixels)"
    assert axis.get_xlabel() == "Network depth (layer)"
