"""The NumPy ResNets give the goldens' outputs, and would notice what copied ports do otherwise."""

import dataclasses

import numpy as np
import pytest
import reference_resnet
from golden_resnets import HYBRID_GOLDENS, load_bit, load_hybrid
from reference_resnet import BIT, GOOGLE, ORIGINS

TOLERANCE = 2e-5


def error(outputs, golden, name):
    return np.abs(outputs[name] - golden[name]).max() / np.abs(golden[name]).max()


@pytest.mark.parametrize("name", HYBRID_GOLDENS)
def test_hybrids(name):
    spec, weights, golden = load_hybrid(name)
    outputs = reference_resnet.hybrid(spec, weights, golden["images"])
    # timm's own hybrids standardise with 1e-8; the golden fits 1e-6, timm's default elsewhere, to
    # 6e-7, and 1e-8 to 1.8e-5.
    for output in ("logits", "encoded"):
        tolerance = TOLERANCE if output == "logits" else 1.5 * TOLERANCE
        assert error(outputs, golden, output) < (tolerance if name == "timm_hybrid" else 3e-6)


def test_bit():
    arguments, weights, golden = load_bit()
    outputs = reference_resnet.bit(arguments["num_layers"], weights, golden["images"])
    for output in ("logits", "pre_logits"):
        assert error(outputs, golden, output) < 3e-6


WRONG = {
    "symmetric padding": {"padding": "symmetric"},
    "epsilon 1e-5 under the root": {"weight_epsilon": 1e-5, "root": True},
    "groups of one channel in the projection": {"projection_groups": None},
}


@pytest.mark.parametrize("rule", WRONG)
@pytest.mark.parametrize("name", ["hybrid_stages", "timm_hybrid"])
def test_a_hybrid_notices(name, rule):
    spec, weights, golden = load_hybrid(name)
    rules = dataclasses.replace(ORIGINS[spec["origin"]], **WRONG[rule])
    outputs = reference_resnet.hybrid(spec, weights, golden["images"], rules)
    assert error(outputs, golden, "logits") > 5 * TOLERANCE


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("padding of the hybrids", {"padding": "same"}),
        ("zeros around the image before pooling", {"pool_value": 0.0}),
        ("epsilon 1e-5 under the root", {"weight_epsilon": 1e-5}),
        ("standardisation of the hybrids", {"weight_epsilon": 1e-5, "root": False}),
    ],
)
def test_a_bit_resnet_notices(name, rules):
    arguments, weights, golden = load_bit()
    rules = dataclasses.replace(BIT, **rules)
    outputs = reference_resnet.bit(arguments["num_layers"], weights, golden["images"], rules)
    assert error(outputs, golden, "logits") > 3 * TOLERANCE, name


def test_zeros_around_the_image_do_no_harm_behind_a_relu():
    spec, weights, golden = load_hybrid("hybrid_stem")
    zeros = dataclasses.replace(GOOGLE, pool_value=0.0)
    outputs = reference_resnet.hybrid(spec, weights, golden["images"], zeros)
    assert error(outputs, golden, "logits") < 3e-6


@pytest.mark.parametrize("size", range(1, 13))
@pytest.mark.parametrize("window", [1, 3, 7])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_same_padding_is_that_of_its_definition(size, window, stride):
    before, after = reference_resnet.pads(size, window, stride, "same")
    outputs = -(-size // stride)
    assert (size + before + after - window) // stride + 1 == outputs
    assert 0 <= after - before <= 1
    if before + after:  # one pixel less would not do
        assert (size + before + after - 1 - window) // stride + 1 < outputs
