"""The two bottleneck units."""

import keras
import numpy as np
import pytest
import reference_resnet
from layer_contract import assert_close, assign, call, check_layer, random_inputs, spread, to_numpy
from reference_resnet import BIT, GOOGLE, TIMM

from keras_vit.layers import BottleneckUnit, PreActivationUnit

B, H, W, C, F = 3, 5, 6, 64, 32


def shapes(channels, projection, norms):
    """The variables of a unit; `norms` are the channels of its norms."""
    result = {
        "conv1/kernel": (1, 1, channels, F),
        "conv2/kernel": (3, 3, F, F),
        "conv3/kernel": (1, 1, F, 4 * F),
    }
    if projection:
        result["conv_proj/kernel"] = (1, 1, channels, 4 * F)
    for name, size in norms.items():
        result |= {f"{name}/gamma": (size,), f"{name}/beta": (size,)}
    return result


POST = {"norm1": F, "norm2": F, "norm3": 4 * F}
PRE = {"norm1": C, "norm2": F, "norm3": F}


def test_contract_of_the_hybrids_unit():
    rules = reference_resnet.Rules("same", 1e-8, True, 1e-4)
    check_layer(
        BottleneckUnit,
        {"filters": F, "strides": 2, "standardization": "timm", "epsilon": 1e-4},
        random_inputs(B, H, W, C),
        lambda weights, x: reference_resnet.bottleneck(x, weights, 2, rules),
        variables=shapes(C, True, {**POST, "norm_proj": 4 * F}),
    )


def test_contract_of_the_bit_unit():
    check_layer(
        PreActivationUnit,
        {"filters": F, "strides": 2, "standardization": "bit", "epsilon": 1e-5},
        random_inputs(B, H, W, C),
        lambda weights, x: reference_resnet.preactivation_unit(x, weights, 2, BIT),
        variables=shapes(C, True, PRE),
    )


UNITS = {
    "google": (BottleneckUnit, "google", GOOGLE, reference_resnet.bottleneck, POST),
    "timm": (BottleneckUnit, "timm", TIMM, reference_resnet.bottleneck, POST),
    "bit": (
        PreActivationUnit,
        "bit",
        BIT,
        reference_resnet.preactivation_unit,
        {**PRE, "norm1": 4 * F},
    ),
}


@pytest.mark.parametrize("name", UNITS)
def test_without_projection_where_the_shape_stays(name):
    unit, standardization, rules, reference, norms = UNITS[name]
    layer = unit(F, 1, standardization, rules.norm_epsilon)
    x = random_inputs(B, H, W, 4 * F)
    layer.build(x.shape)
    weights = {path: spread(s, seed=path) for path, s in shapes(4 * F, False, norms).items()}
    assign(layer, weights)
    wide = {path: np.float64(value) for path, value in weights.items()}
    assert_close(call(layer, [x]), reference(np.float64(x), wide, 1, rules), 1e-5)


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("size", [(4, 4), (7, 4), (1, 1)])
def test_strides_round_up(name, strides, size):
    unit, standardization, rules, _, _ = UNITS[name]
    layer = unit(F, strides, standardization, rules.norm_epsilon)
    x = random_inputs(2, *size, 32)
    expected = (2, *(-(-side // strides) for side in size), 4 * F)
    assert call(layer, [x]).shape == layer.compute_output_shape(x.shape) == expected
    assert layer.conv_proj is not None


def test_the_branch_of_a_new_unit_of_the_hybrids_adds_nothing():
    layer = BottleneckUnit(F, 1, "google", 1e-6)
    x = np.abs(random_inputs(B, H, W, 4 * F))
    assert_close(call(layer, [x]), x, 0)
    assert to_numpy(layer.norm3.gamma).max() == 0
    for norm in (layer.norm1, layer.norm2):
        assert to_numpy(norm.gamma).min() == 1


def test_a_new_unit_of_bit_has_plain_norms():
    layer = PreActivationUnit(F, 2, "bit", 1e-5)
    layer.build((None, H, W, C))
    for norm in (layer.norm1, layer.norm2, layer.norm3):
        assert to_numpy(norm.gamma).min() == to_numpy(norm.gamma).max() == 1


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_a_constant_image_trains_in_16_bits(name, policy):
    unit, standardization, rules, _, _ = UNITS[name]
    layer = unit(F, 2, standardization, rules.norm_epsilon, dtype=policy)
    model = keras.Sequential([keras.Input((H, W, 32)), layer])
    model.compile(keras.optimizers.SGD(1e-2), loss="mse")
    images = np.full((B, H, W, 32), 0.5, "float32")
    model.fit(images, np.ones((B, *model.output_shape[1:])), batch_size=B, epochs=2, verbose=0)
    assert all(np.isfinite(to_numpy(v)).all() for v in layer.weights)


@pytest.mark.parametrize(
    "arguments",
    [
        (0, 1, "google", 1e-6),
        (F, 0, "google", 1e-6),
        (F, 1.5, "google", 1e-6),
    ],
)
def test_refuses(arguments):
    with pytest.raises(ValueError, match="Received: "):
        BottleneckUnit(*arguments)


def test_refuses_an_unknown_standardization_when_it_is_built():
    with pytest.raises(ValueError, match="Received: standardization='keras'"):
        BottleneckUnit(F, 1, "keras", 1e-6).build((None, H, W, C))
