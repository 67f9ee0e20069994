"""Weights that are read when asked for."""

import collections

import ml_dtypes
import numpy as np
import pytest

from keras_vit.weights import lazy


class Counted(dict):
    """Arrays that count how often each is read, and know shapes without that."""

    def __init__(self, arrays):
        super().__init__(arrays)
        self.reads = collections.Counter()

    def __getitem__(self, key):
        self.reads[key] += 1
        return super().__getitem__(key)

    def shape(self, key):
        return super().__getitem__(key).shape


@pytest.fixture
def arrays():
    return Counted({"fused": np.arange(12.0).reshape(6, 2), "alone": np.ones(3, "float32")})


@pytest.fixture
def weights(arrays):
    recipes = {
        "first": ("fused", lambda array: array[:3]),
        "alone": ("alone", lambda array: array),
        "second": ("fused", lambda array: array[3:].T),
    }
    return lazy.LazyWeights(arrays, recipes)


@pytest.mark.parametrize("order", [["first", "second", "alone"], ["second", "alone", "first"]])
def test_one_pass_reads_each_array_once(weights, arrays, order):
    for _ in range(2):
        arrays.reads.clear()
        values = {path: weights[path] for path in order}
        assert arrays.reads == {"fused": 1, "alone": 1}
    np.testing.assert_array_equal(values["first"], [[0, 1], [2, 3], [4, 5]])
    np.testing.assert_array_equal(values["second"], [[6, 8, 10], [7, 9, 11]])
    assert values["second"].dtype == np.float32


def test_looking_reads_nothing(weights, arrays):
    assert list(weights) == ["first", "alone", "second"]
    assert len(weights) == 3
    assert "first" in weights and "fused" not in weights
    assert weights.shape("second") == (2, 3)
    assert weights.key("second") == "fused"
    assert not arrays.reads


def test_shape_of_plain_and_of_lazy_arrays(weights):
    assert lazy.shape_of({"a": np.zeros((2, 3))}, "a") == (2, 3)
    assert lazy.shape_of(weights, "first") == (3, 2)


def test_bfloat16_is_the_upper_half_of_float32():
    bits = np.array([0x3F80, 0x4000, 0xC0A0, 0x7F80, 0x0001], "uint16")
    np.testing.assert_array_equal(
        lazy.bfloat16_to_float32(bits), np.float32([1.0, 2.0, -5.0, np.inf, 2.0**-133])
    )


def test_to_float32():
    one = np.ones((2, 2), ml_dtypes.bfloat16)
    for array in (
        one,
        one.view("V2"),
        one.view("V2")[:, ::-1],
        one.astype("f8"),
        one.astype(">f4"),
    ):
        result = lazy.to_float32("name", array)
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, np.ones((2, 2)))
    same = np.ones(2, "float32")
    assert lazy.to_float32("name", same) is same
    for array in (np.ones(2, int), np.ones(2, complex), np.ones(2, "V4"), np.array(["a"])):
        with pytest.raises(ValueError, match="'name' with dtype"):
            lazy.to_float32("name", array)
