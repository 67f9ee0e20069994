"""NumPy's `.npz` files: zip archives of arrays, each read on its own and none unpickled."""

import contextlib
import math
import os
import pathlib
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from keras_vit.weights.atomic import atomic_write

LOCAL_HEADER = 30  # bytes before the name of a zip archive's member
WINDOW = 2**18  # bytes to verify at a time, which stay in a processor's cache


class NpzFile(Mapping):
    """The arrays of an `.npz` file, each read when asked for. Python objects are refused.

    It does what `np.load` does, and besides tells shapes and types without reading, verifies
    checksums ahead of reading, and names the file in every error.

    Args:
        path: The file.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path)
        self._archive = open_zip(self.path)
        self._headers, self._verified = {}, set()
        names = self._archive.namelist()
        self._members = {name.removesuffix(".npy"): name for name in names}
        if len(self._members) != len(names):
            self.close()
            repeated = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(
                f"An archive must have every array once. Received: path='{self.path}', which has "
                f"{repeated} more than once"
            )

    def __getitem__(self, name: str) -> np.ndarray:
        header = self._header(name)
        with self._errors_of(name):
            if header.begin is not None and self._is_stored(name):
                return self._read_stored(name, header)
            with self._archive.open(self._members[name]) as member:
                array = np.lib.format.read_array(member, allow_pickle=False)
                if member.read(1):  # reading to the end also checks the checksum
                    raise ValueError("bytes are left over after the array")
        return array

    def verify(self) -> None:
        """Checks the checksum of every array that has not been read.

        Raises:
            ValueError: if one is wrong.
        """
        for name, member in self._members.items():
            with self._errors_of(name):
                if self._is_stored(name):
                    self._check_stored(name)
                else:
                    with self._archive.open(member) as file:
                        while file.read(WINDOW):
                            pass

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members  # the inherited test would read the array

    def shape(self, name: str) -> tuple:
        """The shape of an array, from its header."""
        return self._header(name).shape

    def dtype(self, name: str) -> np.dtype:
        """The type of an array, from its header."""
        return self._header(name).dtype

    def close(self) -> None:
        """Closes the file."""
        self._archive.close()

    @contextlib.contextmanager
    def _errors_of(self, name):
        """Turns what reading a damaged array raises into an error that names it."""
        try:
            yield
        except DAMAGE as error:
            raise ValueError(
                f"'{name}' must be a NumPy array without Python objects ({error}). "
                f"Received: path='{self.path}'. It may be cut off or damaged: fetch it again."
            ) from error

    def _info(self, name):
        return self._archive.getinfo(self._members[name])

    def _is_stored(self, name):
        return self._info(name).compress_type == zipfile.ZIP_STORED

    def _header(self, name):
        if name not in self._headers:
            with self._errors_of(name), self._archive.open(self._members[name]) as member:
                self._headers[name] = _array_header(member)
        return self._headers[name]

    # Uncompressed arrays are verified where they lie and read straight into their memory, which
    # takes less time than `zipfile` takes to copy and check them piece by piece.

    def _stored_at(self, file, info):
        """Where the data of an uncompressed member begins."""
        file.seek(info.header_offset + LOCAL_HEADER - 4)
        lengths = np.frombuffer(file.read(4), "<u2")  # of the name and of what comes after it
        return info.header_offset + LOCAL_HEADER + int(lengths.sum())

    def _check_stored(self, name):
        info = self._info(name)
        if name in self._verified:
            return
        with open(self.path, "rb", buffering=0) as file:
            begin = self._stored_at(file, info)
            if _checksum(file, begin, begin + info.file_size) != info.CRC:
                raise zipfile.BadZipFile("bad CRC-32")
        self._verified.add(name)

    def _read_stored(self, name, header):
        self._check_stored(name)
        info, count = self._info(name), math.prod(header.shape)
        if header.dtype.hasobject or info.file_size - header.begin != count * header.dtype.itemsize:
            raise ValueError(f"its header says {header.dtype} {header.shape}")
        with open(self.path, "rb") as file:
            file.seek(self._stored_at(file, info) + header.begin)
            array = np.fromfile(file, header.dtype, count)
        if header.fortran_order:
            return array.reshape(header.shape[::-1]).T
        return array.reshape(header.shape)


class Header(NamedTuple):
    """What stands before the data of a NumPy array, and where they begin; None if not known."""

    shape: tuple
    fortran_order: bool
    dtype: np.dtype
    begin: int | None


def _array_header(member):
    version = np.lib.format.read_magic(member)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        array = np.lib.format.read_array(member, allow_pickle=False)
        return Header(array.shape, False, array.dtype, None)
    return Header(*readers[version](member), member.tell())


def _checksum(file, begin, end):
    """The CRC-32 of a part of a file, a window at a time."""
    checksum, window = 0, memoryview(bytearray(WINDOW))
    file.seek(begin)
    while begin < end and (count := file.readinto(window[: end - begin])):
        checksum = zlib.crc32(window[:count], checksum)
        begin += count
    return checksum


# What reading a damaged member raises: of the archive, of its compression, of the array's header.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,  # an encrypted member, or an unknown compression
    ValueError,
    SyntaxError,
    tokenize.TokenError,
)


def write(path: str | os.PathLike, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays as an uncompressed `.npz` file, one at a time and atomically.

    Args:
        path: The file, whose name is used as it is.
        arrays: Arrays by key.
    """
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            # The size is not known to the archive in advance, and may need 64 bits.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def open_zip(path: str | os.PathLike) -> zipfile.ZipFile:
    """Opens a zip archive.

    Raises:
        ValueError: if it is damaged.
    """
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise ValueError(
            f"The file must be a whole zip archive ({error}). Received: path='{path}'. "
            "It may be cut off or damaged: fetch it again."
        ) from error
