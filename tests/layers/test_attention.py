"""Multi-head attention."""

import keras
import numpy as np
import pytest
import reference_vit
from layer_contract import (
    assert_close,
    assign,
    call,
    check_layer,
    random_inputs,
    random_weights,
    to_numpy,
)

from keras_vit.layers import MultiHeadAttention

# D is h heads of width K; grid of GH x GW patches after P prefix tokens.
B, D, H, K, P, GH, GW = 6, 20, 4, 5, 2, 2, 3
N = P + GH * GW
PLAIN = {
    "num_heads": H,
    "qk_norm": False,
    "layer_norm_epsilon": 1e-6,
    "dropout_rate": 0.0,
    "relative_grid": None,
    "prefix_tokens": 0,
    "seed": 7,
}
NORM = {"qk_norm": True, "layer_norm_epsilon": 1e-3}
RELATIVE = {"relative_grid": (GH, GW), "prefix_tokens": P}
KINDS = {"plain": {}, "norm": NORM, "relative": RELATIVE, "both": {**NORM, **RELATIVE}}


def variables(arguments):
    shapes = {"output/kernel": (H, K, D), "output/bias": (D,)}
    for name in ("query", "key", "value"):
        shapes[f"{name}/kernel"] = (D, H, K)
        shapes[f"{name}/bias"] = (H, K)
    if arguments.get("qk_norm"):
        for name in ("query_norm/gamma", "query_norm/beta", "key_norm/gamma", "key_norm/beta"):
            shapes[name] = (K,)
    if arguments.get("relative_grid"):
        shapes["relative_position/table"] = (2 * GH - 1, 2 * GW - 1, K)
        shapes["relative_position/prefix"] = (2 * P + P * P, K)
    return shapes


def reference(arguments, weights, query, value=None):
    """The reference's output and attention weights."""
    offsets = None
    if arguments.get("relative_grid"):
        offsets = reference_vit.relative_offsets(
            weights["relative_position/table"], weights["relative_position/prefix"], (GH, GW), P
        )
    return reference_vit.attention(
        query,
        query if value is None else value,
        weights,
        qk_norm=arguments.get("qk_norm", False),
        epsilon=arguments.get("layer_norm_epsilon", 1e-6),
        offsets=offsets,
    )


def weighted(arguments, **more):
    layer = MultiHeadAttention(H, **arguments, **more)
    layer.build((None, N, D))
    assign(layer, random_weights(variables(arguments)))
    return layer


# A number added to all logits of a query changes nothing: its variable has no gradient.
@pytest.mark.parametrize(
    "arguments, without_gradient",
    [
        (PLAIN, "key/bias"),
        ({**PLAIN, **KINDS["both"], "dropout_rate": 0.2}, "key_norm/beta"),
    ],
    ids=["plain", "full"],
)
def test_contract(arguments, without_gradient):
    check_layer(
        MultiHeadAttention,
        arguments,
        random_inputs(B, N, D),
        lambda weights, x: reference(arguments, weights, x)[0],
        variables=variables(arguments),
        seed_generators=0 if arguments is PLAIN else 1,
        at_default=set(PLAIN) - {"num_heads", "seed"} if arguments is PLAIN else (),
        without_gradient=(without_gradient,),
    )


def test_contract_with_keys_from_elsewhere():
    check_layer(
        MultiHeadAttention,
        PLAIN,
        (random_inputs(B, 3, D), random_inputs(B, N, D, seed="value")),
        lambda weights, query, value: reference(PLAIN, weights, query, value)[0],
        variables=variables(PLAIN),
        at_default=set(PLAIN) - {"num_heads", "seed"},
        without_gradient=("key/bias",),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_attention_weights_times_values_are_what_the_fused_product_gives(kind):
    layer, x = weighted(KINDS[kind]), random_inputs(B, N, D)
    weights = to_numpy(layer.attention_weights(x))
    assert weights.shape == (B, H, N, N)
    assert weights.min() >= 0
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-6)
    _, expected = reference(KINDS[kind], random_weights(variables(KINDS[kind])), np.float64(x))
    assert_close(weights, expected, 1e-5)

    value, output = to_numpy(layer.value(x)), random_weights(variables(KINDS[kind]))
    heads = np.einsum("bhqk,bkhd->bqhd", weights, value)
    outputs = np.einsum("bqhd,hdc->bqc", heads, output["output/kernel"]) + output["output/bias"]
    assert_close(call(layer, [x]), outputs, 1e-5)


def test_attention_weights_of_keys_from_elsewhere():
    layer = weighted({})
    query, value = random_inputs(B, 3, D), random_inputs(B, N, D, seed="value")
    weights = to_numpy(layer.attention_weights(query, value))
    _, expected = reference({}, random_weights(variables({})), query, value)
    assert weights.shape == (B, H, 3, N)
    assert_close(weights, expected, 1e-5)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_attention_weights_are_float32_under_16_bit_policies(policy):
    layer, x = weighted(KINDS["both"], dtype=policy), random_inputs(B, N, D)
    weights = layer.attention_weights(x)
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    np.testing.assert_allclose(to_numpy(weights).sum(axis=-1), 1, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_path_with_dropout_is_the_fused_one_where_nothing_is_dropped(kind):
    # A rate so small that nothing drops: in training it takes the explicit path all the same.
    layer, x = weighted(KINDS[kind], dropout_rate=1e-12), random_inputs(B, N, D)
    assert_close(call(layer, [x], training=True), call(layer, [x], training=False), 1e-5)


def test_dropout_drops_its_share_of_the_probabilities_and_keeps_the_mean():
    rate, tokens, batch = 0.3, 10, 500
    layer = MultiHeadAttention(1, dropout_rate=rate, seed=1)
    layer.build((None, tokens, 1))
    # Queries are zero, so all keys count alike; values are one, and so the outputs would be.
    weights = {f"{part}/kernel": np.zeros((1, 1, 1)) for part in ("query", "key", "value")}
    weights |= {"query/bias": [[0.0]], "key/bias": [[0.0]], "value/bias": [[1.0]]}
    weights |= {"output/kernel": [[[1.0]]], "output/bias": [0.0]}
    assign(layer, weights)
    outputs = call(layer, [np.zeros((batch, tokens, 1), "float32")], training=True)
    kept = outputs * (1 - rate) * tokens  # of the ten keys
    np.testing.assert_allclose(kept, np.round(kept), atol=1e-4)
    assert abs(outputs.mean() - 1) < 0.02
    assert abs(kept.mean() / tokens - (1 - rate)) < 0.02
    assert len(np.unique(np.round(kept))) > 5


def test_queries_are_divided_by_the_root_of_the_head_width():
    # One head of width 4, identity kernels: the logits of token i and j are x_i . x_j / 2.
    layer = MultiHeadAttention(1)
    layer.build((None, 3, 4))
    identity = np.eye(4).reshape(4, 1, 4)
    weights = {f"{part}/kernel": identity for part in ("query", "key", "value")}
    weights |= {f"{part}/bias": np.zeros((1, 4)) for part in ("query", "key", "value")}
    weights |= {"output/kernel": np.eye(4).reshape(1, 4, 4), "output/bias": np.zeros(4)}
    assign(layer, weights)
    x = random_inputs(1, 3, 4)
    logits = x[0] @ x[0].T / 2
    expected = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(to_numpy(layer.attention_weights(x))[0, 0], expected, rtol=1e-5)


@pytest.mark.parametrize("kind", ["plain", "norm"])
def test_permuting_tokens_permutes_the_outputs(kind):
    layer, x = weighted(KINDS[kind]), random_inputs(B, N, D)
    order = np.random.default_rng(0).permutation(N)
    assert_close(call(layer, [x[:, order]]), call(layer, [x])[:, order], 1e-5)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3])
def test_the_norms_of_queries_and_keys_have_the_epsilon(epsilon):
    # Inputs so small that the variance in a head is about 1e-5.
    arguments = {"qk_norm": True, "layer_norm_epsilon": epsilon}
    weights = random_weights(variables(arguments))
    weights |= {f"{part}/bias": np.zeros((H, K)) for part in ("query", "key")}
    x = 4e-3 * random_inputs(B, N, D)
    layer = weighted(arguments)
    assign(layer, weights)
    _, expected = reference(arguments, weights, np.float64(x))
    assert_close(to_numpy(layer.attention_weights(x)), expected, 1e-5)
    _, other = reference({**arguments, "layer_norm_epsilon": 1e-4}, weights, np.float64(x))
    assert np.abs(other - expected).max() > 1e-2


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="the programs of JAX can be read")
def test_the_division_of_the_softmax_is_of_heads_and_not_of_keys():
    import jax

    layer, x = weighted({}), random_inputs(B, N, D)
    program = str(jax.make_jaxpr(lambda x: layer(x))(x))
    divisions = [line.split(" = ")[0].strip() for line in program.splitlines() if " = div " in line]
    assert [line.split(":")[1] for line in divisions] == [f"f32[{B},{H},{N},{D // H}]"]


@pytest.mark.parametrize(("policy", "factor"), [("mixed_float16", 30), ("float32", 1000)])
def test_large_logits_stay_finite(policy, factor):
    layer = weighted({}, dtype=policy)
    outputs = call(layer, [factor * random_inputs(B, N, D)])
    assert np.isfinite(outputs).all()


def test_many_large_values_stay_finite_in_float16():
    layer = MultiHeadAttention(1, dtype="mixed_float16")
    layer.build((None, 2000, 1))
    # All keys count alike; before it is divided the sum of 2,000 values of 40 has no float16.
    weights = {f"{part}/kernel": np.zeros((1, 1, 1)) for part in ("query", "key", "value")}
    weights |= {"query/bias": [[0.0]], "key/bias": [[0.0]], "value/bias": [[40.0]]}
    weights |= {"output/kernel": [[[1.0]]], "output/bias": [0.0]}
    assign(layer, weights)
    outputs = call(layer, [np.zeros((1, 2000, 1), "float32")])
    np.testing.assert_allclose(outputs, 40, rtol=2e-3)


def test_initial_values():
    width, heads = 60, 4
    layer = MultiHeadAttention(heads)
    layer.build((None, N, width))
    # Fans of the (D, h * d) matrix; taken as a convolution it would be far too narrow.
    limit = np.sqrt(6 / (width + width))
    for part in (layer.query, layer.key, layer.value, layer.output_projection):
        kernel = to_numpy(part.kernel)
        assert 0.99 * limit < np.abs(kernel).max() <= limit
        assert abs(kernel.std() * np.sqrt(3) / limit - 1) < 0.03
        assert not to_numpy(part.bias).any()
    assert not np.allclose(to_numpy(layer.query.kernel), to_numpy(layer.key.kernel))


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_heads": 0},
        {"num_heads": 2.0},
        {"num_heads": H, "dropout_rate": 1.0},
        {"num_heads": H, "dropout_rate": None},
        {"num_heads": H, "qk_norm": "yes"},
        {"num_heads": H, "relative_grid": (2, 3, 4)},
        {"num_heads": H, "relative_grid": 0},
        {"num_heads": H, "relative_grid": (2, 3), "prefix_tokens": -1},
        {"num_heads": H, "layer_norm_epsilon": -1e-6},
        {"num_heads": H, "layer_norm_epsilon": None},
    ],
)
def test_refuses(arguments):
    with pytest.raises(ValueError, match="Received: "):
        MultiHeadAttention(**arguments)


def test_refuses_a_width_that_the_heads_do_not_divide():
    with pytest.raises(ValueError, match="Received: hidden_dim=22, num_heads=4.*are 20 and 24"):
        MultiHeadAttention(H).build((None, N, 22))


def test_refuses_tokens_that_do_not_fill_the_grid():
    with pytest.raises(ValueError, match="Received: shape="):
        MultiHeadAttention(H, **RELATIVE).build((None, N + 1, D))
