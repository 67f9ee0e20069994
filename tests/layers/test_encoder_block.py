"""The encoder block."""

import keras
import numpy as np
import pytest
import reference_vit
from layer_contract import (
    assert_close,
    assign,
    call,
    check_layer,
    one_layer_model,
    random_inputs,
    random_weights,
    to_numpy,
)

from keras_vit.layers import EncoderBlock

B, D, H, K, M, P, GH, GW = 6, 20, 4, 5, 11, 2, 2, 3
N = P + GH * GW
PLAIN = {
    "num_heads": H,
    "mlp_dim": M,
    "activation": "gelu_tanh",
    "layer_norm_epsilon": 1e-6,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    "drop_path_rate": 0.0,
    "layer_scale": None,
    "qk_norm": False,
    "relative_grid": None,
    "prefix_tokens": 0,
    "seed": 7,
}
FULL = {
    "num_heads": H,
    "mlp_dim": M,
    "activation": "gelu",
    "layer_norm_epsilon": 1e-3,
    "dropout_rate": 0.1,
    "attention_dropout_rate": 0.15,
    "drop_path_rate": 0.05,
    "layer_scale": 0.3,
    "qk_norm": True,
    "relative_grid": (GH, GW),
    "prefix_tokens": P,
    "seed": 7,
}


def spec(arguments):
    """The same block in the reference's words."""
    return reference_vit.make_spec(
        image_size=(8 * GH, 8 * GW),
        hidden_dim=D,
        num_heads=H,
        mlp_dim=M,
        class_token=P > 0,
        num_registers=P - 1,
        position_embedding="relative" if arguments["relative_grid"] else "none",
        **{
            name: arguments[name]
            for name in ("activation", "layer_norm_epsilon", "layer_scale", "qk_norm")
        },
    )


def variables(arguments):
    shapes = {
        "attention/output/kernel": (H, K, D),
        "attention/output/bias": (D,),
        "mlp/hidden/kernel": (D, M),
        "mlp/hidden/bias": (M,),
        "mlp/output/kernel": (M, D),
        "mlp/output/bias": (D,),
    }
    for part in ("query", "key", "value"):
        shapes[f"attention/{part}/kernel"] = (D, H, K)
        shapes[f"attention/{part}/bias"] = (H, K)
    for norm in ("attention_norm", "mlp_norm"):
        shapes[f"{norm}/gamma"] = shapes[f"{norm}/beta"] = (D,)
    if arguments["layer_scale"] is not None:
        shapes["attention_scale/gamma"] = shapes["mlp_scale/gamma"] = (D,)
    if arguments["qk_norm"]:
        for norm in ("query_norm", "key_norm"):
            shapes[f"attention/{norm}/gamma"] = shapes[f"attention/{norm}/beta"] = (K,)
    if arguments["relative_grid"]:
        shapes["attention/relative_position/table"] = (2 * GH - 1, 2 * GW - 1, K)
        shapes["attention/relative_position/prefix"] = (2 * P + P * P, K)
    return shapes


def weighted(arguments, **changes):
    """A block with random weights, some of them changed: `{path with _ for /: array}`."""
    layer = EncoderBlock(**arguments)
    layer.build((None, N, D))
    assign(layer, random_weights(variables(arguments)) | changes)
    return layer


@pytest.mark.parametrize(
    "arguments, seed_generators, without_gradient",
    [
        # A number added to all logits of a query changes nothing, so these have no gradient.
        (PLAIN, 0, ("attention/key/bias",)),
        (FULL, 6, ("attention/key_norm/beta",)),
    ],
    ids=["plain", "full"],
)
def test_contract(arguments, seed_generators, without_gradient):
    check_layer(
        EncoderBlock,
        arguments,
        random_inputs(B, N, D),
        lambda weights, x: reference_vit.encoder_block(x, spec(arguments), weights)[0],
        variables=variables(arguments),
        seed_generators=seed_generators,
        at_default=set(PLAIN) - {"num_heads", "mlp_dim", "seed"} if arguments is PLAIN else (),
        without_gradient=without_gradient,
    )


@pytest.mark.parametrize("arguments", [PLAIN, FULL], ids=["plain", "full"])
def test_attention_weights_are_the_blocks_own(arguments):
    x = random_inputs(B, N, D)
    weights = to_numpy(weighted(arguments).attention_weights(x))
    _, expected = reference_vit.encoder_block(
        np.float64(x), spec(arguments), random_weights(variables(arguments))
    )
    assert_close(weights, expected, 1e-5)


@pytest.mark.parametrize("num_queries", [1, 3])
@pytest.mark.parametrize("rematerialize", [False, True])
def test_the_first_tokens_alone_are_those_of_all(num_queries, rematerialize):
    x, layer = random_inputs(B, N, D), weighted(FULL)
    layer.rematerialize = rematerialize
    expected, _ = reference_vit.encoder_block(
        np.float64(x), spec(FULL), random_weights(variables(FULL))
    )
    assert_close(to_numpy(layer(x, num_queries=num_queries)), expected[:, :num_queries], 1e-5)
    trained = layer(x, num_queries=num_queries, training=True)
    symbolic = layer(keras.Input((N, D)), num_queries=num_queries)
    assert tuple(trained.shape[1:]) == symbolic.shape[1:] == (num_queries, D)


@pytest.mark.parametrize("num_queries", [0, -1, N + 1, 1.5, True])
@pytest.mark.parametrize("symbolic", [False, True])
def test_numbers_of_queries_that_cannot_be(num_queries, symbolic):
    tokens = keras.Input((N, D)) if symbolic else random_inputs(B, N, D)
    with pytest.raises(ValueError, match=f"Received: num_queries={num_queries}"):
        weighted(PLAIN)(tokens, num_queries=num_queries)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-12, 1e-3])
def test_the_epsilon_decides_where_the_variance_is_low(epsilon):
    arguments = {**PLAIN, "layer_norm_epsilon": epsilon}
    x = 0.5 + 1e-3 * random_inputs(B, N, D)  # a variance of 1e-6
    weights = random_weights(variables(arguments))
    right, _ = reference_vit.encoder_block(np.float64(x), spec(arguments), weights)
    wrong, _ = reference_vit.encoder_block(
        np.float64(x), spec({**arguments, "layer_norm_epsilon": 1e-5}), weights
    )
    # x itself has only so many digits: its deviations from the mean keep four of them.
    assert_close(call(weighted(arguments), [x]), right, 2e-4)
    assert np.abs(wrong - right).max() > 1e-2 * np.abs(right).max()


def test_huggingfaces_epsilon_in_float16():
    arguments = {**PLAIN, "layer_norm_epsilon": 1e-12}
    layer, half = weighted(arguments), EncoderBlock(**arguments, dtype="mixed_float16")
    half.build((None, N, D))
    half.set_weights(layer.get_weights())
    # 1e-12 is zero in float16, and so is the variance of these, exactly.
    flat = np.full((B, N, D), 0.75, "float32")
    assert_close(call(half, [flat]), call(layer, [flat]), 1e-2)


def test_layer_scale_of_zero_leaves_the_tokens_alone():
    layer, x = EncoderBlock(**{**PLAIN, "layer_scale": 0.0}), random_inputs(B, N, D)
    np.testing.assert_array_equal(call(layer, [x]), x)


# --- What training drops -----------------------------------------------------------------------

ONES = {  # branches that are one everywhere, whatever comes in
    "attention/output/kernel": np.zeros((H, K, D)),
    "attention/output/bias": np.ones(D),
    "mlp/output/kernel": np.zeros((M, D)),
    "mlp/output/bias": np.ones(D),
}
NOTHING = {**ONES, "attention/output/bias": np.zeros(D), "mlp/output/bias": np.zeros(D)}
BRANCHES = {
    "attention": NOTHING | {"attention/output/bias": np.ones(D)},
    "mlp": NOTHING | {"mlp/output/bias": np.ones(D)},
}


def dropped_branches(arguments, weights, batch=1500):
    """What a block in training adds to zeros, where its branches are constants."""
    layer = EncoderBlock(**{**PLAIN, **arguments})
    layer.build((None, N, D))
    assign(layer, random_weights(variables(PLAIN)) | weights)
    return call(layer, [np.zeros((batch, N, D), "float32")], training=True)


@pytest.mark.parametrize("branch", BRANCHES)
def test_drop_path_drops_a_branch_for_whole_samples(branch):
    rate = 0.4
    outputs = dropped_branches({"drop_path_rate": rate}, BRANCHES[branch])
    of_sample = outputs[:, 0, 0]
    np.testing.assert_array_equal(outputs, np.broadcast_to(of_sample[:, None, None], outputs.shape))
    assert set(np.round(np.unique(of_sample), 5)) == {0, np.float32(np.round(1 / (1 - rate), 5))}
    assert abs((of_sample == 0).mean() - rate) < 0.04
    assert abs(of_sample.mean() - 1) < 0.07


def test_drop_path_draws_for_each_branch_anew():
    outputs = dropped_branches({"drop_path_rate": 0.5}, ONES)[:, 0, 0]
    shares = [(outputs == kept).mean() for kept in (0, 2, 4)]
    np.testing.assert_allclose(shares, [0.25, 0.5, 0.25], atol=0.04)


@pytest.mark.parametrize("branch", BRANCHES)
def test_dropout_drops_single_elements_of_a_branch(branch):
    rate = 0.25
    outputs = dropped_branches({"dropout_rate": rate}, BRANCHES[branch], batch=200)
    assert abs((outputs == 0).mean() - rate) < 0.02
    assert abs(outputs.mean() - 1) < 0.03
    np.testing.assert_allclose(outputs[outputs > 0], 1 / (1 - rate), rtol=1e-5)


def test_attention_dropout_reaches_the_attention():
    layer, x = weighted({**PLAIN, "attention_dropout_rate": 0.4}), random_inputs(B, N, D)
    assert layer.attention.dropout_rate == 0.4
    assert not np.allclose(call(layer, [x], training=True), call(layer, [x]), atol=1e-3)


def test_each_random_part_has_a_seed_of_its_own():
    layer = EncoderBlock(**FULL)
    layer.build((None, N, D))
    states = [tuple(to_numpy(v)) for v in layer.non_trainable_variables]
    assert len(set(states)) == len(states) == 6


def test_one_step_in_mixed_precision():
    layer, x = EncoderBlock(**PLAIN, dtype="mixed_float16"), random_inputs(B, N, D)
    model = one_layer_model(layer, [x])
    model.compile(keras.optimizers.SGD(0.1), loss="mse")
    before = layer.get_weights()
    y = random_inputs(B, N, D, seed="target")
    loss = model.fit(x, y, batch_size=B, epochs=1, verbose=0).history["loss"]
    assert np.isfinite(loss).all()
    assert all(np.isfinite(w).all() for w in layer.get_weights())
    assert any((a != b).any() for a, b in zip(before, layer.get_weights(), strict=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"num_heads": 0},
        {"mlp_dim": 0},
        {"activation": "gelu_fast"},
        {"layer_norm_epsilon": None},
        {"layer_norm_epsilon": -1e-6},
        {"dropout_rate": 1.0},
        {"attention_dropout_rate": -0.1},
        {"drop_path_rate": 1},
        {"layer_scale": "small"},
        {"qk_norm": 1},
        {"relative_grid": (2, 3, 4)},
        {"prefix_tokens": -1},
    ],
    ids=str,
)
def test_refuses(changes):
    with pytest.raises(ValueError, match="Received: "):
        EncoderBlock(**{**PLAIN, **changes})


def test_refuses_a_width_that_the_heads_do_not_divide():
    with pytest.raises(ValueError, match="Received: hidden_dim=22, num_heads=4"):
        EncoderBlock(**PLAIN).build((None, N, 22))
