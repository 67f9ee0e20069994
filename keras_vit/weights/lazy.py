"""Arrays that are read when they are asked for, and whose shapes are known before."""

import collections
from collections.abc import Callable, Iterator, Mapping

import numpy as np


def shape_of(arrays: Mapping[str, np.ndarray], name: str) -> tuple:
    """The shape of an array, without reading it where the mapping knows how."""
    known = getattr(arrays, "shape", None)
    return known(name) if known is not None else tuple(np.shape(arrays[name]))


def bfloat16_to_float32(bits: np.ndarray) -> np.ndarray:
    """Widens bfloat16, given as 16-bit integers: it is the upper half of a float32."""
    return (bits.astype("<u4") << 16).view("<f4")


def to_float32(name: str, array: np.ndarray) -> np.ndarray:
    """A weight as float32. Narrower types widen exactly, float64 is rounded.

    NumPy files hold bfloat16 as 2-byte void, since NumPy has no name for it.

    Raises:
        ValueError: if the array is not of a floating type: integers would be quantised weights,
            which mean nothing without their scales.
    """
    array = np.asarray(array)
    check_type(name, array.dtype)
    if array.dtype.kind != "f":
        return bfloat16_to_float32(np.ascontiguousarray(array).view("<u2"))
    return array.astype(np.float32, copy=False)


def check_type(name: str, dtype: np.dtype) -> None:
    """Raises a ValueError if `to_float32` cannot convert arrays of this type."""
    if dtype.kind != "f" and dtype != "V2" and dtype.name != "bfloat16":
        raise ValueError(
            "Weights must be floating-point numbers of at most 64 bits. "
            f"Received: '{name}' with dtype={dtype}"
        )


class LazyWeights(Mapping):
    """Weights under our paths, each made from a foreign array when it is asked for.

    A foreign array that serves several paths (a fused query, key and value matrix, or a tensor that
    stacks all layers) is kept until each of them has had it, so that one pass in any order reads
    every array once and holds little. Values are float32.

    Args:
        arrays: The foreign arrays by key.
        recipes: `{path: (key, function)}`, where the function takes the array of that key.
    """

    def __init__(
        self, arrays: Mapping[str, np.ndarray], recipes: Mapping[str, tuple[str, Callable]]
    ):
        self._arrays = arrays
        self._recipes = dict(recipes)
        self._users = collections.Counter(key for key, _ in self._recipes.values())
        self._kept = {}  # {key: (array, how many more times it will be asked for)}

    def __getitem__(self, path: str) -> np.ndarray:
        key, function = self._recipes[path]
        return function(self._read(key))

    def __iter__(self) -> Iterator[str]:
        return iter(self._recipes)

    def __len__(self) -> int:
        return len(self._recipes)

    def __contains__(self, path: object) -> bool:
        return path in self._recipes  # the inherited test would read the array

    def key(self, path: str) -> str:
        """The foreign key that a weight comes from."""
        return self._recipes[path][0]

    def shape(self, path: str) -> tuple:
        """The shape of a weight, without reading it."""
        key, function = self._recipes[path]
        stand_in = np.broadcast_to(np.float32(0), shape_of(self._arrays, key))
        return function(stand_in).shape

    def check_type(self, path: str) -> None:
        """Raises a ValueError if a weight is not of a floating type, if that is known unread."""
        key, _ = self._recipes[path]
        if (known := getattr(self._arrays, "dtype", None)) is not None:
            check_type(key, known(key))

    def _read(self, key):
        array, left = self._kept.pop(key, (None, self._users[key]))
        if array is None:
            array = to_float32(key, self._arrays[key])
        if left > 1:
            self._kept[key] = (array, left - 1)
        return array
