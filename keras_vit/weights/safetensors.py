"""The safetensors format in NumPy: an 8-byte length, a JSON header of that length, the tensors.

Written here rather than taken from the package of that name so that nothing more needs to be
installed, so that bfloat16 reads without a framework, and so that a broken file is named.
"""

import json
import math
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from keras_vit.weights.atomic import atomic_write
from keras_vit.weights.lazy import bfloat16_to_float32

# Little-endian, as the format demands on every machine. NumPy has no bfloat16: BF16 is read as
# the 16-bit integers that it is stored as and then widened.
DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
NAMES = {np.dtype(dtype).name: name for name, dtype in DTYPES.items() if name != "BF16"}
NAMES["bfloat16"] = "BF16"  # the dtype that ml_dtypes, and so JAX, gives its arrays

MAX_HEADER = 100_000_000  # bytes, the limit of the format's own implementation
ALIGNMENT = 8


class Entry(NamedTuple):
    dtype: str  # a key of DTYPES
    shape: tuple
    begin: int  # counted from the end of the header
    end: int


class SafetensorsFile(Mapping):
    """The tensors of a safetensors file, each read from disk when it is asked for.

    The header is checked when the object is made. Nothing stays open, and an array belongs to
    whoever asked for it. BF16 comes as float32, every other type as itself.

    Args:
        path: The file.

    Raises:
        ValueError: if the file is not a valid safetensors file. The message names it.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path)
        try:
            header, self._start = _read_header(self.path)
            self.metadata = _checked_metadata(header.pop("__metadata__", {}))
            self._entries = {name: _entry(name, value) for name, value in header.items()}
            _check_buffer(self._entries, self.path.stat().st_size - self._start)
        except _Invalid as error:
            raise ValueError(
                f"The file is not a valid safetensors file: {error}. Received: path='{self.path}'. "
                "It may be cut off or damaged: fetch it again."
            ) from error

    def __getitem__(self, name: str) -> np.ndarray:
        dtype, shape, begin, end = self._entries[name]
        count = math.prod(shape)
        array = np.fromfile(self.path, DTYPES[dtype], count, offset=self._start + begin)
        if array.size != count:
            raise ValueError(
                f"The file has become shorter since it was opened: tensor '{name}' is cut off. "
                f"Received: path='{self.path}'"
            )
        array = array.reshape(shape)
        return bfloat16_to_float32(array) if dtype == "BF16" else array

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries  # the inherited test would read the array

    def shape(self, name: str) -> tuple:
        """The shape of a tensor, without reading it."""
        return self._entries[name].shape

    def dtype(self, name: str) -> np.dtype:
        """The type that a tensor is read as, without reading it."""
        dtype = self._entries[name].dtype
        return np.dtype("float32" if dtype == "BF16" else DTYPES[dtype])


def write(
    path: str | os.PathLike,
    arrays: Mapping[str, np.ndarray],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes arrays as a safetensors file, one at a time and atomically.

    Args:
        path: The file.
        arrays: Arrays by name, of a type in `DTYPES`; bfloat16 by `ml_dtypes` is one of them.
        metadata: Strings by name, kept in the header. `{"format": "pt"}` is what transformers and
            timm look for.

    Example:

    >>> write("model.safetensors", {"cls_token": np.zeros((1, 1, 8), "float32")}, {"format": "pt"})
    """
    # Wide types first: then every tensor starts at a multiple of its own size.
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header = _header_bytes(arrays, names, dict(metadata or {}))
    with atomic_write(path) as file:
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        for name in names:
            array = np.ascontiguousarray(arrays[name])
            file.write(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())


class _Invalid(Exception):
    pass


def _read_header(path):
    """(header, offset of the tensors)."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, MAX_HEADER):
            raise _Invalid(f"its header would be {length} bytes long, the file is {size}")
        text = file.read(length)
    try:
        header = json.loads(text.decode(), object_pairs_hook=_without_duplicates)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise _Invalid(f"its header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise _Invalid("its header is not a JSON object")
    return header, 8 + length


def _without_duplicates(pairs):
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise _Invalid(f"its header has {repeated} more than once")
    return result


def _checked_metadata(metadata):
    if not isinstance(metadata, dict) or any(not isinstance(v, str) for v in metadata.values()):
        raise _Invalid("its metadata is not strings by name")
    return metadata


def _entry(name, value):
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise _Invalid(f"the header's entry for '{name}' is not dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise _Invalid(f"tensor '{name}' has dtype {dtype!r}, not one of {', '.join(DTYPES)}")
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise _Invalid(f"tensor '{name}' has shape {shape} and offsets {offsets}")
    begin, end = offsets
    needed = math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize
    if end - begin != needed:
        raise _Invalid(f"tensor '{name}' needs {needed} bytes and has offsets {offsets}")
    return Entry(dtype, tuple(shape), begin, end)


def _are_sizes(values):
    return isinstance(values, list) and all(type(v) is int and v >= 0 for v in values)


def _check_buffer(entries, size):
    """The tensors must fill the rest of the file without holes and without sharing bytes."""
    position = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1][2:]):
        if entry.begin != position:
            raise _Invalid(f"tensor '{name}' begins at {entry.begin} instead of {position}")
        position = entry.end
    if position != size:
        raise _Invalid(f"its tensors need {position} bytes after the header, there are {size}")


def _header_bytes(arrays, names, metadata):
    header = {"__metadata__": metadata} if metadata else {}
    if any(not isinstance(text, str) for item in metadata.items() for text in item):
        raise TypeError(f"`metadata` must be strings by name. Received: metadata={metadata}")
    position = 0
    for name in names:
        array = arrays[name]
        if name == "__metadata__" or array.dtype.name not in NAMES:
            raise ValueError(
                "A tensor must have one of the dtypes "
                f"{', '.join(NAMES)}, and another name than '__metadata__'. "
                f"Received: name='{name}', dtype={array.dtype}"
            )
        end = position + array.nbytes
        header[name] = {
            "dtype": NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [position, end],
        }
        position = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return text + b" " * (-len(text) % ALIGNMENT)
