"""Facts about checkpoints: position grids, merging, what is recorded, constants."""

import json

import numpy as np
import pytest
from foreign_weights import model

from keras_vit.models import spec as specs
from keras_vit.weights import checkpoint as checkpoints


def test_the_constants_are_those_of_the_models():
    models = {
        name: (origin.activation, origin.layer_norm_epsilon)
        for name, origin in specs.ORIGINS.items()
    }
    assert checkpoints.CONSTANTS == models


def test_facts_are_fields_of_the_spec():
    fields = set(specs.ViTSpec.__dataclass_fields__)
    later = {"resnet", "resnet_width"}  # of hybrids
    _, weights = model()
    assert set(checkpoints.facts_from_weights(weights)) - later <= fields
    assert set(checkpoints.RECORDED) <= fields
    assert checkpoints.STRUCTURE - later <= fields


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, ("gelu_tanh", 1e-6)),
        ({"origin": "huggingface"}, ("gelu", 1e-12)),
        ({"origin": "timm", "activation": "relu", "layer_norm_epsilon": 1e-5}, ("relu", 1e-5)),
        ({"origin": "timm", "activation": None, "layer_norm_epsilon": None}, ("gelu", 1e-6)),
    ],
)
def test_constants_in_force(facts, expected):
    assert checkpoints.constants(facts) == expected


# The rule for position grids. The readers' tests go through it with files.


@pytest.mark.parametrize(
    ("rows", "prefix", "prefixes", "expected"),
    [
        (16, 0, {0}, (True, (4, 4))),  # 4 x 4 is never thought to be 2 x 8
        (12, 0, {0}, (True, None)),
        (50, 1, {0, 1}, (True, (7, 7))),
        (50, 1, {1}, (True, (7, 7))),
        (50, 1, {0}, (False, None)),
        (49, 1, {0}, (False, (7, 7))),
        (49, 1, {1}, (True, None)),
        (49, 1, {0, 1}, (None, None)),
        (2, 1, {0, 1}, (True, (1, 1))),
        (4, 1, {0, 1}, (None, None)),  # 2 x 2, or 1 + 1 x 3
        (16, 5, {0, 5}, (False, (4, 4))),
        (9, 5, {0, 5}, (None, None)),
        (4, 5, {0, 5}, (False, (2, 2))),
        (197, 1, {0, 1}, (True, (14, 14))),
    ],
)
def test_grid_by_rows(rows, prefix, prefixes, expected):
    assert checkpoints.settle_positions(rows, prefix, prefixes) == expected


@pytest.mark.parametrize(
    ("rows", "prefix", "prefixes", "grid", "expected"),
    [
        (49, 1, {0, 1}, (7, 7), False),
        (49, 1, {0, 1}, (6, 8), True),
        (16, 0, {0}, (2, 8), True),
        (9, 5, {0, 5}, (1, 4), True),
        (9, 5, {0, 5}, (1, 9), False),
    ],
)
def test_a_known_grid_decides(rows, prefix, prefixes, grid, expected):
    assert checkpoints.settle_positions(rows, prefix, prefixes, grid) == (expected, grid)


def test_a_known_grid_that_does_not_fit():
    with pytest.raises(ValueError, match=r"49 rows.*6 x 6.*0 or 1 prefix.*here=\(6, 6\)"):
        checkpoints.settle_positions(49, 1, {0, 1}, (6, 6), "here")


# Merging and recording.


def test_merging():
    merged = checkpoints.merge_facts(
        {"a": 1, "b": 2}, file={"a": 3, "c": 4}, other={"c": 4, "d": 5}
    )
    assert merged == {"a": 3, "b": 2, "c": 4, "d": 5}
    with pytest.raises(ValueError, match="c=4 from file, c=5 from other"):
        checkpoints.merge_facts({}, file={"c": 4}, other={"c": 5})


def test_recording():
    spec, _ = model(class_names=("a", "b", "c", "d", "e"), pooling="max", origin="timm")
    spec["preprocessing"] = {"mean": (0.5, 0.4, 0.3), "crop_mode": "squash"}
    record = checkpoints.record(spec, (4, 4))
    assert json.loads(json.dumps(record)) == record
    facts, grid = checkpoints.recorded_facts(record)
    assert grid == (4, 4)
    assert facts["image_size"] == (12, 20)
    assert facts["class_names"] == ("a", "b", "c", "d", "e")
    assert facts["preprocessing"] == {"mean": (0.5, 0.4, 0.3), "crop_mode": "squash"}
    assert (facts["pooling"], facts["origin"], facts["activation"]) == ("max", "timm", "gelu")
    assert "include_top" not in facts
    assert checkpoints.recorded_facts(None) == ({}, None)


def test_a_spec_can_be_recorded():
    spec = specs.ViTSpec(
        image_size=32, patch_size=8, num_layers=1, num_heads=2, hidden_dim=8, mlp_dim=16
    )
    facts, grid = checkpoints.recorded_facts(checkpoints.record(spec.to_dict(), spec.grid))
    assert grid == (4, 4)
    for name, value in facts.items():
        assert spec.to_dict()[name] == value


@pytest.mark.parametrize("hidden_dim", [1, 3, 24, 192, 768, 1152, 1408])
def test_mlp_ratio_survives_rounding(hidden_dim):
    for mlp_dim in range(1, 6000):
        assert int(hidden_dim * checkpoints.mlp_ratio(hidden_dim, mlp_dim)) == mlp_dim


def test_folding_positions_into_tokens():
    weights = {
        "class_token/token": np.float32([[[1, 2]]]),
        "position_embedding/table": np.float32([[[10, 20], [3, 4], [5, 6]]]),
    }
    folded = checkpoints.fold_prefix_positions(weights, {"class_token/token": slice(0, 1)})
    np.testing.assert_array_equal(folded["class_token/token"], [[[11, 22]]])
    np.testing.assert_array_equal(folded["position_embedding/table"], [[[3, 4], [5, 6]]])
    np.testing.assert_array_equal(weights["class_token/token"], [[[1, 2]]])
