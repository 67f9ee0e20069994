"""Principal components of embedding filters: planted ones are found again."""

import numpy as np
import pytest
import small_models as small
import small_resnets

import keras_vit
from keras_vit.analysis import patch_filters, plot_patch_filters
from keras_vit.analysis.patch_filters import filter_components


def planted(model, spreads, seed=0):
    """Gives the embedding filters of known components; returns those, the sign fixed."""
    kernel = model.get_layer("patch_embedding").kernel
    shape, rng = tuple(kernel.shape), np.random.default_rng(seed)
    size = int(np.prod(shape[:-1]))
    directions, _ = np.linalg.qr(rng.normal(size=(size, len(spreads))))
    # Coordinates of the filters: of mean zero, at right angles and of length 1 for each direction.
    table = rng.normal(size=(shape[-1], len(spreads)))
    coordinates, _ = np.linalg.qr(table - table.mean(axis=0))
    mean = rng.normal(size=size)  # of all filters, which must not matter
    filters = mean + (coordinates * spreads) @ directions.T  # (D, P * P * C)
    kernel.assign(filters.T.reshape(shape))
    for column in directions.T:
        column *= np.sign(column[np.abs(column).argmax()])
    return directions.T.reshape(-1, *shape[:-1])


def principal(kernel, count):
    """By the eigenvectors of the covariance, up to sign: (count, rows, columns, C)."""
    filters = np.reshape(kernel, (-1, kernel.shape[-1])).T.astype(np.float64)
    _, vectors = np.linalg.eigh(np.cov(filters.T))
    return vectors.T[::-1][:count].reshape(count, *kernel.shape[:-1])


def assert_equal_up_to_sign(actual, wanted):
    for a, b in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(abs(np.sum(a * b)), 1.0, atol=1e-4)


def test_planted_components_are_found_in_order():
    # Patches of 8 x 10 pixels and four channels.
    model = small.build(**small.VARIANTS["wide_patches"]).model
    wanted = planted(model, spreads=[3.0, 2.0, 1.0])
    actual = patch_filters(model, components=3)
    assert actual.shape == (3, 8, 10, 4) and actual.dtype == np.float32
    np.testing.assert_allclose(actual, wanted, atol=1e-5)
    shares = filter_components(model)[1]
    np.testing.assert_allclose(shares[:4], [9 / 14, 4 / 14, 1 / 14, 0], atol=1e-6)


def test_the_sign_is_fixed():
    model = small.build(num_layers=1).model
    kernel = model.get_layer("patch_embedding").kernel
    before = patch_filters(model)
    flat = before.reshape(len(before), -1)
    assert (np.take_along_axis(flat, np.abs(flat).argmax(1)[:, None], 1) > 0).all()
    kernel.assign(-small.numpy(kernel))
    np.testing.assert_allclose(patch_filters(model)[:20], before[:20], atol=1e-4)


@pytest.mark.parametrize(
    ("patch", "channels", "hidden_dim", "count"),
    [(8, 3, 64, 28), (4, 1, 64, 16), (8, 3, 24, 24)],
)
def test_there_are_28_or_as_many_as_numbers_in_a_patch_or_filters(
    patch, channels, hidden_dim, count
):
    model = keras_vit.VisionTransformer(16, patch, 1, 1, hidden_dim, 4, channels=channels)
    filters = patch_filters(model)
    assert filters.shape == (count, patch, patch, channels)
    lengths = np.sqrt(np.sum(filters.astype(np.float64) ** 2, axis=(1, 2, 3)))
    np.testing.assert_allclose(lengths, 1.0, atol=1e-6)


def test_a_hybrids_are_those_of_its_standardised_stem():
    model, _, weights = small_resnets.hybrid()
    raw = weights["stem_conv/kernel"].astype(np.float64)  # (7, 7, 3, 32)
    deviation = raw.std(axis=(0, 1, 2))
    standardised = (raw - raw.mean(axis=(0, 1, 2))) / (deviation + 1e-5)
    actual = patch_filters(model, components=4)
    assert actual.shape == (4, 7, 7, 3)
    assert_equal_up_to_sign(actual, principal(standardised, 4))
    # The raw filters have others.
    other = principal(raw * np.linspace(0.1, 3, raw.shape[-1]), 4)
    assert abs(np.sum(actual[0] * other[0])) < 0.9
    folded = keras_vit.fold_weight_standardization(model)
    np.testing.assert_allclose(patch_filters(folded, components=4), actual, atol=1e-4)


def test_the_scale_of_a_standardised_filter_does_not_matter():
    model, weights = small_resnets.bit()
    before = patch_filters(model, components=4)
    raw = weights["stem_conv/kernel"]
    model.get_layer("stem_conv").kernel.assign(raw * np.linspace(0.5, 3, raw.shape[-1]))
    np.testing.assert_allclose(patch_filters(model, components=4), before, atol=1e-3)
    centred = raw - raw.mean(axis=(0, 1, 2))
    assert_equal_up_to_sign(before, principal(centred / raw.std(axis=(0, 1, 2)), 4))


def test_a_resized_model_of_lower_precision():
    model = small.build(dtype="bfloat16", num_layers=1).model
    larger = keras_vit.resize(model, image_size=(40, 24))
    assert patch_filters(larger).dtype == np.float32
    np.testing.assert_array_equal(patch_filters(larger), patch_filters(model))


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="`components` must be an integer of at least 1"):
        patch_filters(small.variant("plain").model, components=0)
    with pytest.raises(ValueError, match="`analysis.patch_filters` needs a model made by"):
        patch_filters(object())


@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_plot_stretches_each_to_the_screen(channels):
    model = keras_vit.VisionTransformer(16, 8, 1, 1, 64, 4, channels=channels)
    (axis,) = plot_patch_filters(model).axes
    picture = axis.images[0].get_array()
    assert picture.shape == (4 * 8 + 3, 7 * 8 + 6, 3)  # four rows of seven, a gap of one
    for row, column in np.ndindex(4, 7):
        tile = picture[9 * row :, 9 * column :][:8, :8]
        wanted = patch_filters(model)[7 * row + column]
        low, high = wanted.min(), wanted.max()
        shown = (wanted[..., :3] - low) / (high - low)
        np.testing.assert_allclose(tile, np.broadcast_to(shown, (8, 8, 3)), atol=1e-6)
