"""The reference itself: against foreign implementations, against sums done by hand, and in itself.

Nothing here imports Keras or the library.
"""

import math

import numpy as np
import pytest
from golden_weights import VIT_GOLDENS, load_golden
from reference_vit import (
    attention,
    forward,
    gelu,
    gelu_tanh,
    layer_norm,
    learned_2d_positions,
    make_spec,
    map_pooling,
    patch_embedding,
    pool,
    positions,
    random_images,
    random_weights,
    relative_offsets,
    sincos2d_positions,
    variable_shapes,
)

TOLERANCE = 2e-5


def relative_error(actual, expected):
    assert actual.shape == expected.shape
    return np.abs(actual - expected).max() / np.abs(expected).max()


# Against foreign implementations.


@pytest.mark.parametrize("name", VIT_GOLDENS)
def test_outputs_equal_the_goldens(name):
    spec, weights, expected = load_golden(name)
    result = forward(spec, weights, expected["images"])
    outputs = {"logits", "encoded", "pre_logits"} & set(expected)
    assert len(outputs) == 2
    for output in outputs:
        assert relative_error(result[output], expected[output]) < TOLERANCE, output


@pytest.mark.parametrize("name", VIT_GOLDENS)
def test_golden_weights_have_every_variable_in_its_shape(name):
    spec, weights, _ = load_golden(name)
    assert {path: value.shape for path, value in weights.items()} == variable_shapes(spec)


@pytest.mark.parametrize(
    ("name", "activation"), [("vit_token", "gelu"), ("timm_vit_token", "gelu_tanh")]
)
def test_goldens_tell_the_two_gelus_apart(name, activation):
    spec, weights, expected = load_golden(name)
    result = forward({**spec, "activation": activation}, weights, expected["images"])
    assert relative_error(result["logits"], expected["logits"]) > 5 * TOLERANCE


# Against sums done by hand.


def test_layer_norm_epsilon_counts_when_the_variance_is_small():
    # Mean 5, deviations -+1e-3, variance 1e-6.
    x = np.array([4.999, 5.001])
    large = layer_norm(x, 1.0, 0.0, epsilon=1e-6)  # 1e-3 / sqrt(2e-6) = 1 / sqrt(2)
    np.testing.assert_allclose(large, [-0.70710678, 0.70710678], rtol=1e-8)
    small = layer_norm(x, 1.0, 0.0, epsilon=1e-12)  # 1 / sqrt(1 + 1e-6) = 1 - 5e-7
    np.testing.assert_allclose(small, [-0.9999995, 0.9999995], rtol=1e-10)


def test_layer_norm_scales_and_shifts_the_last_axis():
    x = np.array([[1.0, 3.0], [0.0, -2.0]])
    y = layer_norm(x, gamma=np.array([2.0, 3.0]), beta=np.array([10.0, 20.0]), epsilon=0.0)
    np.testing.assert_allclose(y, [[8.0, 23.0], [12.0, 17.0]])


def test_gelu_values_where_its_approximation_is_worst():
    # Phi(-2.7) from a table, twice which the other form takes to be 1 + tanh(-2.85652674).
    np.testing.assert_allclose(gelu(np.array([-2.7])), -2.7 * 0.00346697380, rtol=1e-8)
    np.testing.assert_allclose(gelu_tanh(np.array([-2.7])), -1.35 * 0.00658340344, rtol=1e-8)
    x = np.linspace(-6, 6, 2401)
    assert 4.6e-4 < np.abs(gelu(x) - gelu_tanh(x)).max() < 4.8e-4


def test_sincos2d_rows_for_eight_channels():
    # Two frequencies, 1 and 1 / 10000; the grid's column comes first, then its row.
    rows = sincos2d_positions((2, 3), 8)
    np.testing.assert_allclose(rows[0], [0, 0, 1, 1, 0, 0, 1, 1])
    last = [0.90929743, 2e-4, -0.41614684, 1 - 2e-8, 0.84147098, 1e-4, 0.54030231, 1 - 5e-9]
    np.testing.assert_allclose(rows[5], last, rtol=1e-8, atol=1e-8)


def test_learned_2d_rows_put_the_column_first():
    rows = learned_2d_positions(rows=np.array([[1.0], [2.0]]), columns=np.array([[5.0], [6.0]]))
    np.testing.assert_array_equal(rows, [[5, 1], [6, 1], [5, 2], [6, 2]])


def test_attention_between_two_tokens():
    # One head of four. Token 0 asks for nothing: half and half. Token 1 asks 2 log 3 of token 1,
    # which sqrt(4) halves: one to three. Values are (0, 4), put into both output channels.
    def first_of_four(row):
        kernel = np.zeros((2, 1, 4))
        kernel[:, 0, 0] = row
        return kernel

    weights = {
        "query/kernel": first_of_four([0.0, 2.0]),
        "key/kernel": first_of_four([0.0, math.log(3)]),
        "value/kernel": first_of_four([0.0, 4.0]),
        "output/kernel": np.ones((1, 4, 2)),
        "output/bias": np.array([0.0, 100.0]),
    }
    weights.update({f"{part}/bias": np.zeros((1, 4)) for part in ("query", "key", "value")})
    tokens = np.eye(2)[None]
    output, probabilities = attention(tokens, tokens, weights)
    np.testing.assert_allclose(probabilities, [[[[0.5, 0.5], [0.25, 0.75]]]])
    np.testing.assert_allclose(output, [[[2.0, 102.0], [3.0, 103.0]]])


def test_patches_are_cut_row_by_row_and_keep_height_width_channel_order():
    images = np.arange(2 * 4 * 2, dtype=float).reshape(1, 2, 4, 2)  # a grid of 1 x 2, patches 2 x 2
    kernel = np.eye(8).reshape(2, 2, 2, 8)  # the patch's pixels themselves
    patches = patch_embedding(images, kernel, bias=0.5)
    np.testing.assert_array_equal(
        patches[0] - 0.5, [[0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]]
    )


def test_relative_offsets_without_prefix():
    # Ten for each row that the query is below the key, one for each column to its right.
    table = np.add.outer([-10.0, 0.0, 10.0], [-1.0, 0.0, 1.0])[..., None]
    offsets = relative_offsets(table, None, (2, 2), num_prefix=0)
    np.testing.assert_array_equal(
        offsets[..., 0], [[0, -1, -10, -11], [1, 0, -9, -10], [10, 9, 0, -1], [11, 10, 1, 0]]
    )


def test_relative_offsets_with_two_prefix_tokens():
    # A grid of 2 x 1. 10 and 20 lead from the prefix to patches, 30 and 40 back, 50 ... are pairs.
    table = np.array([-1.0, 0.0, 1.0]).reshape(3, 1, 1)
    prefix = np.array([10.0, 20.0, 30.0, 40.0, 50.0, 51.0, 52.0, 53.0])[:, None]
    offsets = relative_offsets(table, prefix, (2, 1), num_prefix=2)
    np.testing.assert_array_equal(
        offsets[..., 0],
        [[50, 51, 10, 10], [52, 53, 20, 20], [30, 40, 0, -1], [30, 40, 1, 0]],
    )


@pytest.mark.parametrize(("kind", "expected"), [("token", 9.0), ("avg", 2.0), ("max", 3.0)])
def test_pooling_reads_the_class_token_or_the_patches_only(kind, expected):
    spec = make_spec(pooling=kind, num_registers=1)
    tokens = np.array([9.0, -7.0, 1.0, 3.0])[None, :, None]  # class, register, two patches
    np.testing.assert_array_equal(pool(tokens, spec, {}), [[expected]])


def test_map_pooling_has_no_residual_to_its_probe():
    spec = make_spec(pooling="map")
    weights = {
        path.removeprefix("map_pooling/"): np.zeros_like(value)
        for path, value in random_weights(spec, seed=0).items()
        if path.startswith("map_pooling/")
    }
    weights["probe"] += 1.0
    weights["attention/output/bias"] += 0.25
    pooled = map_pooling(np.ones((2, 4, spec["hidden_dim"])), spec, weights)
    np.testing.assert_array_equal(pooled, np.full((2, spec["hidden_dim"]), 0.25))


# In itself.

VARIATIONS = [
    {},
    {"pooling": "avg", "class_token": False},
    {"pooling": "max", "num_registers": 2},
    {"pooling": "map", "representation_size": 11},
    {"pooling": "map", "class_token": False, "norm_after_pool": True},
    {"include_top": False, "pooling": None},
    {"include_top": False, "pooling": None, "norm_after_pool": True},
    {"include_top": False, "pooling": "avg"},
    {"pooling": None, "num_registers": 2, "class_token_position": False},
    {"origin": "timm", "qk_norm": True, "layer_scale": 0.1},
    {"origin": "huggingface", "position_embedding": "none"},
    {"position_embedding": "sincos2d", "position_injection": "every_layer"},
    {"position_embedding": "learned", "position_injection": "every_layer"},
    {"position_embedding": "learned", "position_injection": "shared"},
    {"position_embedding": "learned_2d", "num_registers": 1},
    {"position_embedding": "learned_2d", "class_token_position": False},
    {"position_embedding": "learned_2d", "position_injection": "every_layer"},
    {"position_embedding": "relative", "num_registers": 1},
    {"position_embedding": "relative", "class_token": False, "pooling": "avg", "qk_norm": True},
    {"activation": "relu", "patch_size": (8, 10)},
]


@pytest.mark.parametrize("fields", VARIATIONS, ids=str)
def test_every_variable_is_needed_and_every_output_has_its_shape(fields):
    spec = make_spec(num_layers=2, **{"image_size": (16, 20), "patch_size": (8, 10), **fields})
    weights, images = random_weights(spec, seed=1), random_images(spec, seed=2)
    result = forward(spec, weights, images)

    num_tokens = spec["class_token"] + spec["num_registers"] + 4
    tokens = (2, num_tokens, spec["hidden_dim"])
    assert [x.shape for x in [*result["tokens"], result["encoded"]]] == [tokens] * 3
    maps = (2, spec["num_heads"], num_tokens, num_tokens)
    assert [x.shape for x in result["attention"]] == [maps] * 2
    if spec["include_top"]:
        assert result["logits"].shape == (2, spec["classes"])
    for path in weights:
        with pytest.raises(KeyError):
            forward(spec, {p: w for p, w in weights.items() if p != path}, images)


def test_random_weights_are_spread_and_repeatable():
    spec = make_spec(num_layers=2, qk_norm=True, layer_scale=0.1)
    weights = random_weights(spec, seed=3)
    assert {path: value.shape for path, value in weights.items()} == variable_shapes(spec)
    for path, value in weights.items():
        assert value.dtype == np.float32
        assert np.all(value != 0)
        assert abs(value.mean() - path.endswith("/gamma")) < 0.3, path
    other = random_weights({**spec, "layer_scale": None}, seed=3)
    for path, value in other.items():
        np.testing.assert_array_equal(value, weights[path])
    assert np.all(random_weights(spec, seed=4)["head/bias"] != weights["head/bias"])


def logits_with_shuffled_patches(**fields):
    """The logits of an image, and of the same image with its patches in reverse order."""
    spec = make_spec(pooling="avg", class_token=False, **fields)
    weights, images = random_weights(spec, seed=5), random_images(spec, seed=6)
    cut = images.reshape(2, 3, 8, 5, 8, 3)[:, ::-1, :, ::-1]  # a grid of 3 x 5 patches
    return [
        forward(spec, weights, pixels)["logits"] for pixels in (images, cut.reshape(images.shape))
    ]


def test_without_positions_the_order_of_patches_is_invisible():
    straight, reversed_ = logits_with_shuffled_patches(position_embedding="none")
    np.testing.assert_allclose(straight, reversed_, rtol=1e-10)


@pytest.mark.parametrize("kind", ["learned", "learned_2d", "sincos2d", "relative"])
def test_with_positions_the_order_of_patches_shows(kind):
    straight, reversed_ = logits_with_shuffled_patches(position_embedding=kind)
    assert np.abs(straight - reversed_).max() > 1e-2


def test_shared_positions_are_equal_positions_at_every_layer():
    shared = make_spec(position_injection="shared")
    weights, images = random_weights(shared, seed=7), random_images(shared, seed=8)
    every_layer = make_spec(position_injection="every_layer")
    copied = {**weights, "position_embedding_1/table": weights["position_embedding/table"]}
    np.testing.assert_array_equal(
        forward(shared, weights, images)["logits"], forward(every_layer, copied, images)["logits"]
    )
    stem = forward(make_spec(), weights, images)
    assert relative_error(stem["logits"], forward(shared, weights, images)["logits"]) > 1e-2


@pytest.mark.parametrize("kind", ["learned", "learned_2d", "sincos2d"])
def test_prefix_tokens_without_position_get_zeros(kind):
    spec = make_spec(position_embedding=kind, num_registers=2, class_token_position=False)
    layer = {
        path.removeprefix("position_embedding/"): value
        for path, value in random_weights(spec, seed=9).items()
        if path.startswith("position_embedding/")
    }
    rows = positions(spec, layer)
    assert rows.shape == (3 + 15, spec["hidden_dim"])
    assert not rows[:3].any()
    assert rows[3:].any(axis=1).all()


def test_what_the_reference_cannot_compute_is_refused():
    with pytest.raises(NotImplementedError, match="resnet"):
        forward(make_spec(resnet=(1, 2)), {}, np.zeros((1, 24, 40, 3)))
    with pytest.raises(ValueError, match="widht"):
        make_spec(widht=3)
    with pytest.raises(ValueError, match="class token"):
        pool(np.zeros((1, 4, 24)), make_spec(class_token=False), {})
