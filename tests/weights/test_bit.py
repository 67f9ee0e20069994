"""The names of the released BiT files."""

import numpy as np
import pytest
import reference_resnet
from foreign_weights import TOLERANCE, assert_same
from golden_resnets import load_bit
from golden_weights import golden_file, read_npz

from keras_vit.weights import bit, files


@pytest.fixture(scope="module")
def arrays():
    return read_npz(golden_file("bit_resnet"))


@pytest.fixture(scope="module")
def expected():
    return load_bit().weights


def test_golden(arrays, expected):
    checkpoint = bit.read(arrays)
    assert_same(checkpoint.weights, expected)
    assert checkpoint.facts == {
        "family": "bit",
        "num_layers": (1, 2, 1, 1),
        "width": 0.5,
        "channels": 3,
        "classes": 7,
        "pooling": "avg",
    }
    assert checkpoint.position_grid is None and checkpoint.unused == {}
    outputs = load_bit().expected
    logits = reference_resnet.bit((1, 2, 1, 1), dict(checkpoint.weights), outputs["images"])
    error = np.abs(logits["logits"] - outputs["logits"]).max()
    assert error < TOLERANCE * np.abs(outputs["logits"]).max()


def test_shapes_are_known_without_reading(arrays, expected):
    checkpoint = bit.read(arrays)
    for path, array in expected.items():
        assert checkpoint.weights.shape(path) == array.shape


def numbered(arrays):
    """As in some released files: TensorFlow counted the layers of a name."""
    renamed = {}
    for i, (key, array) in enumerate(arrays.items()):
        if "block2" in key or "root" in key:
            key = key.replace("standardized_conv2d/", f"standardized_conv2d_{i}/")
        renamed[key] = array
    return renamed


def test_numbers_of_layers_say_nothing(arrays, expected):
    assert numbered(arrays).keys() != arrays.keys()
    assert_same(bit.read(numbered(arrays)).weights, expected)


def test_two_names_for_one_weight_are_refused(arrays):
    key = "resnet/block1/unit01/a/standardized_conv2d/kernel"
    twice = {**arrays, key.replace("conv2d/", "conv2d_3/"): arrays[key]}
    with pytest.raises(ValueError, match="every weight once"):
        bit.read(twice)


def test_norms_with_the_shape_of_images(arrays, expected):
    wide = {
        key: array.reshape(1, 1, 1, -1) if "group_norm" in key else array
        for key, array in arrays.items()
    }
    assert_same(bit.read(wide).weights, expected)


def test_without_a_head(arrays, expected):
    checkpoint = bit.read({key: array for key, array in arrays.items() if "head" not in key})
    assert checkpoint.facts["classes"] is None
    assert_same(checkpoint.weights, {p: w for p, w in expected.items() if "head" not in p})


def test_ten_units_and_more_are_numbered_with_two_digits():
    template = load_bit().weights
    weights = dict(template)
    for path, array in template.items():
        if path.startswith("stage_2_unit_2/"):
            for u in range(3, 13):
                weights[path.replace("unit_2", f"unit_{u}")] = u * array
    arrays = bit.write(weights, {})
    assert "resnet/block2/unit09/a/group_norm/beta" in arrays
    assert "resnet/block2/unit12/a/group_norm/beta" in arrays
    checkpoint = bit.read(arrays)
    assert checkpoint.facts["num_layers"] == (1, 12, 1, 1)
    assert_same(checkpoint.weights, weights)


def test_what_is_missing_or_unknown_is_listed(arrays):
    broken = {**arrays, "resnet/block5/extra": np.zeros(3, "float32")}
    del broken["resnet/group_norm/beta"]
    with pytest.raises(ValueError) as error:
        bit.read(broken)
    assert "a ResNet in BiT's names" in str(error.value)
    assert "Missing: ['resnet/group_norm/beta']" in str(error.value)
    assert "Unknown: ['resnet/block5/extra']" in str(error.value)


def test_written_under_the_released_names(arrays, expected):
    written = bit.write(expected, {"pooling": "avg", "folded": False})
    assert_same(written, arrays)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [({"pooling": "max"}, "pooling by 'max'"), ({"folded": True}, "standardised for good")],
)
def test_refuses_to_write_what_the_format_cannot_express(expected, facts, reason):
    with pytest.raises(ValueError, match=reason):
        bit.write(expected, facts)


def test_refuses_to_write_another_kind_of_model(expected):
    weights = {**expected, "class_token/token": np.zeros((1, 1, 8), "float32")}
    with pytest.raises(ValueError, match=r"no place for: \['class_token/token'\]"):
        bit.write(weights, {})


def test_through_a_file(arrays, expected, tmp_path):
    path = tmp_path / "BiT-M-R50x1.npz"
    files.write_npz(path, bit.write(expected, {}), {"image_size": [64, 64]})
    assert files.detect_format(arrays) == files.detect_format(numbered(arrays)) == "bit"
    with files.open_checkpoint(path) as file:
        checkpoint = files.read(file)
        assert_same(checkpoint.weights, expected)
    assert checkpoint.facts["image_size"] == (64, 64)
