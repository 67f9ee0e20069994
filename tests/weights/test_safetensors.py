"""The safetensors format, against bytes written out here and against its own implementation."""

import json
import os
import stat

import ml_dtypes
import numpy as np
import pytest

from keras_vit.weights import safetensors
from keras_vit.weights.atomic import atomic_path, atomic_write


def put(path, header, buffer=b""):
    """A file of a header (a dict, or bytes as they are) and the bytes after it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + buffer)
    return path


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize(
    ("dtype", "data", "read_as", "values"),
    [
        ("BF16", "803f0040", "float32", [1.0, 2.0]),
        ("F16", "003c0040", "float16", [1.0, 2.0]),
        ("F32", "0000803f00000040", "float32", [1.0, 2.0]),
        ("F64", "000000000000f03f0000000000000040", "float64", [1.0, 2.0]),
        ("I64", "0100000000000000feffffffffffffff", "int64", [1, -2]),
        ("I32", "01000000feffffff", "int32", [1, -2]),
        ("I16", "0100feff", "int16", [1, -2]),
        ("I8", "01fe", "int8", [1, -2]),
        ("U8", "01fe", "uint8", [1, 254]),
        ("U16", "0100feff", "uint16", [1, 65534]),
        ("BOOL", "0100", "bool", [True, False]),
    ],
)
def test_types_from_bytes(path, dtype, data, read_as, values):
    data = bytes.fromhex(data)
    put(path, {"a": entry(dtype, [2], 0, len(data))}, data)
    array = safetensors.SafetensorsFile(path)["a"]
    np.testing.assert_array_equal(array, np.array(values, read_as), strict=True)


def test_shapes_order_and_metadata(path):
    header = {
        "second": entry("F32", [1, 2], 4, 12),
        "__metadata__": {"format": "pt"},
        "first": entry("F32", [], 0, 4),
        "none": entry("F32", [0, 3], 12, 12),
    }
    put(path, header, np.float32([7, 8, 9]).tobytes())
    file = safetensors.SafetensorsFile(path)
    assert file.metadata == {"format": "pt"}
    assert sorted(file) == ["first", "none", "second"]
    assert len(file) == 3 and "first" in file and "__metadata__" not in file
    assert file.shape("second") == (1, 2)
    np.testing.assert_array_equal(file["first"], np.float32(7))
    np.testing.assert_array_equal(file["second"], np.float32([[8, 9]]), strict=True)
    assert file["none"].shape == (0, 3)
    with pytest.raises(KeyError):
        file["other"]


def test_arrays_belong_to_whoever_asked(path):
    safetensors.write(path, {"a": np.zeros(3, "float32")})
    file = safetensors.SafetensorsFile(path)
    file["a"][:] = 1
    np.testing.assert_array_equal(file["a"], np.zeros(3))


F32 = entry("F32", [2], 0, 8)
BAD = {
    "no header": (b"", b"", "its header is not JSON"),
    "not JSON": (b"{'a'}", b"", "its header is not JSON"),
    "not UTF-8": (b"{\xff}", b"", "its header is not JSON"),
    "not an object": (b"[1]", b"", "not a JSON object"),
    "a name twice": (b'{"a": 1, "b": 2, "a": 3}', b"", r"\['a'\] more than once"),
    "metadata of numbers": ({"__metadata__": {"a": 1}}, b"", "metadata"),
    "metadata no object": ({"__metadata__": []}, b"", "metadata"),
    "an entry that is a list": ({"a": [1]}, b"", "entry for 'a'"),
    "an entry without offsets": ({"a": {"dtype": "F32", "shape": []}}, b"", "entry for 'a'"),
    "an unknown type": ({"a": entry("F8_E5M2", [2], 0, 2)}, b"12", "dtype 'F8_E5M2'"),
    "a type that is a list": ({"a": entry(["F32"], [2], 0, 8)}, bytes(8), "dtype"),
    "a negative size": ({"a": entry("F32", [-2], 0, 8)}, bytes(8), "shape"),
    "a size that is no integer": ({"a": entry("F32", [2.0], 0, 8)}, bytes(8), "shape"),
    "offsets the wrong way": ({"a": entry("F32", [2], 8, 0)}, bytes(8), "offsets"),
    "three offsets": ({"a": {**F32, "data_offsets": [0, 8, 9]}}, bytes(8), "offsets"),
    "offsets of another size": ({"a": entry("F32", [3], 0, 8)}, bytes(8), "needs 12 bytes"),
    "offsets out of range": ({"a": F32}, bytes(4), "need 8 bytes.*there are 4"),
    "bytes left over": ({"a": F32}, bytes(9), "need 8 bytes.*there are 9"),
    "a hole": ({"a": F32, "b": entry("F32", [1], 12, 16)}, bytes(16), "'b' begins at 12"),
    "an overlap": ({"a": F32, "b": entry("F32", [1], 4, 8)}, bytes(8), "'b' begins at 4"),
}


@pytest.mark.parametrize("name", BAD)
def test_broken_files_are_named(path, name):
    header, buffer, message = BAD[name]
    put(path, header, buffer)
    with pytest.raises(ValueError, match=message) as error:
        safetensors.SafetensorsFile(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "data", [b"", b"\1\0\0", (100).to_bytes(8, "little") + b"{}", b"\xff" * 32]
)
def test_header_lengths_that_cannot_be(path, data):
    path.write_bytes(data)
    with pytest.raises(ValueError, match="header would be") as error:
        safetensors.SafetensorsFile(path)
    assert str(path) in str(error.value)


def test_a_file_cut_off_at_any_byte(path):
    safetensors.write(path, {"a": np.ones(3, "float32"), "b": np.ones((2, 2), "float16")})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="not a valid safetensors file"):
            safetensors.SafetensorsFile(path)


def test_a_file_that_is_cut_off_later(path):
    safetensors.write(path, {"a": np.ones(3, "float32")})
    file = safetensors.SafetensorsFile(path)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match="'a' is cut off"):
        file["a"]


# Writing.


def examples():
    rng = np.random.default_rng(0)
    return {
        "ä/β.weight": rng.normal(size=(3, 4)).astype("float32"),
        "half": rng.normal(size=5).astype("float16"),
        "double": rng.normal(size=(1, 2, 1)),
        "scalar": np.float32(3),
        "empty": np.zeros((0, 4), "int8"),
        "bytes": np.arange(3, dtype="uint8"),
        "flags": np.array([True, False]),
        "big_endian": np.arange(3, dtype=">i4"),
        "transposed": np.arange(6.0).reshape(2, 3).T,
        "reversed": np.arange(6, dtype="int64")[::-2],
    }


def test_round_trip(path):
    arrays = examples()
    safetensors.write(path, arrays, {"a": "b"})
    file = safetensors.SafetensorsFile(path)
    assert file.metadata == {"a": "b"}
    assert sorted(file) == sorted(arrays)
    for name, array in arrays.items():
        assert file.shape(name) == np.shape(array)
        np.testing.assert_array_equal(file[name], array)
        assert file[name].dtype == np.asarray(array).dtype.newbyteorder("=")


def test_tensors_are_aligned(path):
    safetensors.write(path, examples())
    length = int.from_bytes(path.read_bytes()[:8], "little")
    header = json.loads(path.read_bytes()[8 : 8 + length])
    assert length % 8 == 0
    for tensor in header.values():
        itemsize = np.dtype(safetensors.DTYPES[tensor["dtype"]]).itemsize
        assert tensor["data_offsets"][0] % itemsize == 0


def test_bfloat16_round_trip(path):
    array = np.array([1.0, -2.5, 3e38], ml_dtypes.bfloat16)
    safetensors.write(path, {"a": array})
    assert path.stat().st_size % 8 == 6
    np.testing.assert_array_equal(
        safetensors.SafetensorsFile(path)["a"], array.astype("float32"), strict=True
    )


def test_the_formats_own_implementation_agrees(tmp_path):
    official = pytest.importorskip("safetensors.numpy")
    arrays = {name: np.ascontiguousarray(array) for name, array in examples().items()}
    del arrays["big_endian"]  # its writer puts the bytes down as they lie in memory
    safetensors.write(tmp_path / "ours", arrays, {"a": "b"})
    official.save_file(arrays, tmp_path / "theirs", {"a": "b"})
    theirs = official.load_file(tmp_path / "ours")
    ours = safetensors.SafetensorsFile(tmp_path / "theirs")
    assert ours.metadata == {"a": "b"}
    assert sorted(theirs) == sorted(ours) == sorted(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(theirs[name], array, strict=True)
        np.testing.assert_array_equal(ours[name], array, strict=True)


@pytest.mark.parametrize(
    ("arrays", "error"),
    [
        ({"a": np.zeros(2, complex)}, ValueError),
        ({"a": np.array(["text"])}, ValueError),
        ({"a": np.array([None])}, ValueError),
        ({"__metadata__": np.zeros(2)}, ValueError),
    ],
)
def test_what_cannot_be_written(path, arrays, error):
    path.write_bytes(b"as before")
    with pytest.raises(error, match="dtype"):
        safetensors.write(path, arrays)
    with pytest.raises(TypeError, match="strings"):
        safetensors.write(path, {}, {"a": 1})
    assert os.listdir(path.parent) == [path.name]
    assert path.read_bytes() == b"as before"


# Atomic writing.


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), atomic_write(path) as file:
        file.write(b"new")
        raise RuntimeError
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_bytes() == b"old"


def test_success_replaces_it_and_keeps_ordinary_permissions(tmp_path):
    path, plain = tmp_path / "file", tmp_path / "plain"
    plain.write_bytes(b"")
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    assert sorted(os.listdir(tmp_path)) == ["file", "plain"]


@pytest.mark.parametrize("folder", [False, True])
def test_a_path_takes_the_place_of_another_when_it_is_complete(folder, tmp_path):
    path = tmp_path / "model.weights.h5"

    def write(beside, text):
        assert beside.parent == tmp_path and beside.name.endswith(".model.weights.h5")
        if folder:
            beside.mkdir()
            beside = beside / "part"
        beside.write_text(text)

    with pytest.raises(RuntimeError), atomic_path(path) as beside:
        write(beside, "half")
        raise RuntimeError
    assert os.listdir(tmp_path) == []
    with atomic_path(path) as beside:
        write(beside, "whole")
        assert not path.exists()
    assert os.listdir(tmp_path) == [path.name]
    assert (path / "part" if folder else path).read_text() == "whole"
    if folder:
        with pytest.raises(OSError), atomic_path(path) as beside:
            write(beside, "other")
        assert os.listdir(tmp_path) == [path.name]
