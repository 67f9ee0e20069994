"""Cosines between positions, of every kind; the plots without matplotlib."""

import builtins

import numpy as np
import pytest
import small_models as small
from reference_vit import learned_2d_positions, sincos2d_positions

import keras_vit
from keras_vit import analysis
from keras_vit.analysis import plot_position_similarity, position_similarity


def cosines(rows, grid):
    """(gh * gw, D) -> (gh, gw, gh, gw), pair by pair."""
    rows = np.asarray(rows, np.float64)
    result = [[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in rows] for a in rows]
    return np.reshape(result, (*grid, *grid))


def rows_of(variant, layer="position_embedding"):
    """The positions of the patches."""
    weights, spec = variant.weights, variant.spec
    grid = tuple(side // 8 for side in spec["image_size"])
    if spec["position_embedding"] == "sincos2d":
        return sincos2d_positions(grid, 24)
    if spec["position_embedding"] == "learned_2d":
        return learned_2d_positions(weights[f"{layer}/rows"], weights[f"{layer}/columns"])
    return weights[f"{layer}/table"][0, -grid[0] * grid[1] :]


@pytest.mark.parametrize(
    "name",
    [
        "plain",  # a row for the class token, left out
        "learned_shared",  # and for two registers
        "grid_only_positions",
        "2d",
        "2d_every_layer",
        "2d_shared_tokens",
        "sincos",
        "sincos_every_layer",
    ],
)
def test_cosines_of_all_pairs_of_patches(name):
    variant = small.variant(name)
    similarity = position_similarity(variant.model)
    grid = tuple(side // 8 for side in variant.spec["image_size"])
    assert similarity.dtype == np.float32
    assert similarity.shape == (*grid, *grid)
    np.testing.assert_allclose(similarity, cosines(rows_of(variant), grid), atol=1e-5)


def test_each_block_may_have_its_own():
    variant = small.variant("learned_every_layer")
    for layer, name in ((0, "position_embedding"), (1, "position_embedding_1")):
        wanted = cosines(rows_of(variant, name), (3, 5))
        np.testing.assert_allclose(position_similarity(variant.model, layer), wanted, atol=1e-5)
    np.testing.assert_array_equal(
        position_similarity(variant.model, -1), position_similarity(variant.model, 1)
    )
    shared = small.variant("learned_shared").model
    np.testing.assert_array_equal(position_similarity(shared, 1), position_similarity(shared, 0))


def test_sincos_by_hand():
    # Width 24: six frequencies w_k = 10000^(-k / 5). Neighbours in a row differ in the column's
    # half, where the product of a pair is cos(w_k): (6 + sum of cos w_k) / 12.
    similarity = position_similarity(small.variant("sincos").model)
    w = 10000.0 ** (-np.arange(6) / 5)
    beside = (6 + np.cos(w).sum()) / 12
    np.testing.assert_allclose(similarity[0, 0, 0, 1], beside, atol=1e-5)
    np.testing.assert_allclose(similarity[1, 3, 2, 3], beside, atol=1e-5)
    np.testing.assert_allclose(similarity[2, 4, 2, 4], 1.0, atol=1e-5)


@pytest.mark.parametrize("name", ["relative", "relative_patches"])
def test_relative_positions_compare_an_offset_with_none(name):
    variant = small.variant(name)
    rows, columns = (side // 8 for side in variant.spec["image_size"])
    table = variant.weights["block_1/attention/relative_position/table"].astype(np.float64)
    table = table / np.linalg.norm(table, axis=-1, keepdims=True)
    similarity = position_similarity(variant.model, layer=1)
    for i, j, k, m in np.ndindex(similarity.shape):
        offset = table[i - k + rows - 1, j - m + columns - 1]
        wanted = offset @ table[rows - 1, columns - 1]
        np.testing.assert_allclose(similarity[i, j, k, m], wanted, atol=1e-5)
    assert similarity.shape == (rows, columns, rows, columns)


def test_a_resized_model():
    model = keras_vit.resize(small.variant("plain").model, image_size=(40, 32))
    table = small.values(model)["position_embedding/table"]
    np.testing.assert_allclose(position_similarity(model), cosines(table[0, 1:], (5, 4)), atol=1e-5)


def test_a_position_of_zeros_is_like_nothing():
    variant = small.build(num_layers=1)
    table = variant.weights["position_embedding/table"].copy()
    table[0, 1] = 0.0
    small.assign(variant.model, {**variant.weights, "position_embedding/table": table})
    similarity = position_similarity(variant.model)
    assert not similarity[0, 0].any()
    assert np.isfinite(similarity).all()


def test_no_positions_and_no_such_block_are_refused():
    with pytest.raises(ValueError, match="no position embedding to compare"):
        position_similarity(small.variant("huggingface").model)
    for layer in (2, -3):
        with pytest.raises(ValueError, match="2 blocks"):
            position_similarity(small.variant("plain").model, layer=layer)


# --- The plot ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize("name", ["plain", "relative_patches"])
def test_plot_has_a_tile_for_each_patch(name):
    variant = small.variant(name)
    figure = plot_position_similarity(variant.model)
    similarity = position_similarity(variant.model)
    rows, columns = similarity.shape[:2]
    axis, colours = figure.axes
    assert axis.images[0].get_clim() == (-1, 1)
    assert colours.get_ylabel() == "Cosine similarity"
    # One picture of all tiles, with a gap of one pixel between them.
    drawn = np.ma.filled(axis.images[0].get_array(), np.nan)
    assert drawn.shape == (rows * (rows + 1) - 1, columns * (columns + 1) - 1)
    for row, column in np.ndindex(rows, columns):
        tile = drawn[row * (rows + 1) :, column * (columns + 1) :][:rows, :columns]
        np.testing.assert_array_equal(tile, similarity[row, column])
    assert np.isnan(drawn).sum() == drawn.size - (rows * columns) ** 2
    assert [label.get_text() for label in axis.get_xticklabels()][:3] == ["1", "2", "3"]


@pytest.fixture
def without_matplotlib(monkeypatch):
    original = builtins.__import__

    def refuse(name, *arguments, **options):
        if name.split(".")[0] == "matplotlib":
            raise ModuleNotFoundError(f"No module named {name!r}")
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_without_matplotlib_the_plots_say_how_to_get_it(without_matplotlib):
    variant = small.variant("plain")
    twins = [name for name in analysis.__all__ if not name.startswith("plot_")]
    for name in (f"plot_{twin}" for twin in twins):
        takes_images = name not in ("plot_position_similarity", "plot_patch_filters")
        with pytest.raises(ImportError, match=r"matplotlib.*pip install 'keras3-vit\[plot\]'"):
            getattr(analysis, name)(variant.model, *[variant.images[:1]] * takes_images)
    # The numbers need no matplotlib.
    assert position_similarity(variant.model).shape == (3, 5, 3, 5)
