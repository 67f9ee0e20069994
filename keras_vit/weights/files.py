"""Opening checkpoint files, told apart by their content, and writing NumPy's.

Arrays are read from disk one by one, when they are asked for. Keras's own files are recognised and
left to Keras. Nothing is ever unpickled, since that runs code of whoever made the file.
"""

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from keras_vit.weights import bit, google, huggingface, others, safetensors, timm
from keras_vit.weights.atomic import atomic_write
from keras_vit.weights.checkpoint import Checkpoint
from keras_vit.weights.mapping import strip_wrappers

METADATA = "keras_vit"  # the key under which safetensors metadata has what keras_vit recorded
INDEX = "model.safetensors.index.json"
WHOLE = "model.safetensors"

HOW_TO_CONVERT = (
    "Convert it where you trust it and have PyTorch: "
    "`safetensors.torch.save_file(torch.load(path, weights_only=True), 'model.safetensors')`, "
    "with the state dict of the model alone"
)


@dataclasses.dataclass
class CheckpointFile:
    """An opened checkpoint.

    Attributes:
        path: The file or folder.
        kind: `"npz"`, `"safetensors"`, or Keras's own `"weights.h5"` or `"keras"`.
        arrays: Arrays by key, each read when asked for; `arrays.shape(key)` reads none. Empty for
            Keras's own.
        metadata: What keras_vit recorded when it wrote the file, else empty.
        config: The `config.json` beside the tensors, if there is one.
        preprocessor: The `preprocessor_config.json` beside them, if there is one.
    """

    path: pathlib.Path
    kind: str
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    metadata: dict = dataclasses.field(default_factory=dict)
    config: dict | None = None
    preprocessor: dict | None = None

    def __enter__(self) -> "CheckpointFile":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def verify(self) -> None:
        """Reads all that could turn out damaged only while it is read.

        Safetensors have no checksums; their sizes were checked when they were opened.

        Raises:
            ValueError: if an array is damaged.
        """
        if isinstance(self.arrays, NpzFile):
            self.arrays.verify()

    def close(self) -> None:
        """Closes the file. Arrays that were read stay."""
        if isinstance(self.arrays, NpzFile):
            self.arrays.close()


def open_checkpoint(path: str | os.PathLike) -> CheckpointFile:
    """Opens a file, or a folder with `model.safetensors`, by its content.

    Args:
        path: An `.npz`, `.safetensors`, `.weights.h5` or `.keras` file, or a folder as transformers
            and timm write them, in one piece or in shards.

    Raises:
        FileNotFoundError: if there is nothing.
        ValueError: if it is none of these. The message names the path and what it is instead.

    Example:

    >>> with open_checkpoint("ViT-B_16.npz") as file:
    ...     checkpoint = google.read(file.arrays, metadata=file.metadata)
    """
    path = pathlib.Path(path)
    if path.is_dir():
        return _open_folder(path)
    with open(path, "rb") as file:
        start = file.read(512)
    kind = _recognised(path, start)
    if kind == "npz":
        return CheckpointFile(path, kind, NpzFile(path), _read_json(_record_path(path)) or {})
    if kind == "safetensors":
        config = _read_json(path.parent / "config.json") if path.name == WHOLE else None
        return _with_safetensors(path, safetensors.SafetensorsFile(path), config)
    return CheckpointFile(path, kind)


def read(file: CheckpointFile, num_heads: int | None = None) -> Checkpoint:
    """Reads an opened `.npz` or `.safetensors` checkpoint in whichever names it has.

    Args:
        file: From `open_checkpoint`.
        num_heads: Heads of every attention layer, for the formats that do not tell. A number that
            contradicts the file raises.

    Raises:
        ValueError: if the checkpoint cannot be read completely, or is one of Keras's own.
    """
    if file.kind not in ("npz", "safetensors"):
        raise ValueError(
            "Keras reads its own files: use `model.load_weights` or `keras.saving.load_model`. "
            f"Received: path='{file.path}'"
        )
    format_name = detect_format(file.arrays)
    if format_name in ("google", "bit"):
        reader = google.read if format_name == "google" else bit.read
        return reader(file.arrays, metadata=file.metadata)
    reader = timm.read if format_name == "timm" else huggingface.read
    return reader(file.arrays, num_heads=num_heads, config=file.config, metadata=file.metadata)


SIGNATURES = {
    "google": ("embedding/kernel", "Transformer/encoder_norm/scale"),
    "huggingface": ("embeddings.patch_embeddings.projection.weight", "embeddings.cls_token"),
    "timm": ("patch_embed.proj.weight", "blocks.0.norm1.weight"),
    "bit": ("resnet/group_norm/gamma", "resnet/block1/unit01/a/group_norm/gamma"),
}


def detect_format(keys: Iterable[str]) -> str:
    """`"google"`, `"timm"`, `"huggingface"` or `"bit"`, by the names that the keys end with.

    Raises:
        ValueError: if they are of none of these.
    """
    names = list(strip_wrappers(keys))
    for format_name, endings in SIGNATURES.items():
        if any(
            name == end or name.endswith((f"/{end}", f".{end}"))
            for name in names
            for end in endings
        ):
            return format_name
    message = (
        "The names in a checkpoint must be those that google-research/vision_transformer, "
        "big_vision, timm or transformers give a Vision Transformer, or those of the released BiT "
        f"ResNets. Received: {len(names)} keys such as {sorted(names)[:8]}."
    )
    raise ValueError(" ".join([message, *others.sentences(names)]))


# Telling files apart.

ZIP, HDF5 = b"PK\x03\x04", b"\x89HDF\r\n\x1a\n"
EMPTY_ZIP = b"PK\x05\x06"
LOCAL_HEADER = 30  # bytes before the name of a zip archive's member
WINDOW = 2**18  # bytes to verify at a time, which stay in a processor's cache


def _recognised(path, start):
    """The kind of a file by its first bytes.

    Raises:
        ValueError: if it cannot be read, with what it is.
    """
    if start.startswith((ZIP, EMPTY_ZIP)):
        return _recognised_zip(path)
    if start.startswith(HDF5):
        return "weights.h5"
    if start[8:9] == b"{":  # of the JSON after the length
        return "safetensors"
    raise ValueError(
        f"A checkpoint must be an .npz, .safetensors, .weights.h5 or .keras file. "
        f"Received: path='{path}', which {_described(start)}"
    )


def _described(start):
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not start:
        return "is empty."
    if text.startswith((b"<!doctype html", b"<html", b"<head")):
        return (
            "is an HTML page: the address it came from shows a page about the file, or an error, "
            "instead of the file. Fetch it from its download address."
        )
    if text.startswith(b"<?xml") or text.startswith(b"<error"):
        return "is an XML message, probably a server's error. Check the address it came from."
    if text.startswith(b"version https://git-lfs"):
        return "is a Git LFS pointer: the file itself was not fetched. Run `git lfs pull`."
    if start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return f"is a pickle, as PyTorch writes it. {HOW_TO_CONVERT}."
    if start.startswith(b"\x1f\x8b"):
        return "is compressed with gzip. Unpack it first."
    return f"is none of them: it begins with {start[:16]!r}."


def _recognised_zip(path):
    with _zip(path) as archive:
        names = archive.namelist()
    if "model.weights.h5" in names and "config.json" in names:
        return "keras"
    if any(name.endswith("data.pkl") for name in names):
        raise ValueError(
            "A checkpoint must not be a pickle, since reading one runs code of whoever made it. "
            f"Received: path='{path}', a file that PyTorch wrote. {HOW_TO_CONVERT}."
        )
    if names and all(name.endswith(".npy") for name in names):
        return "npz"
    raise ValueError(
        "A checkpoint that is a zip archive must be an .npz or .keras file. "
        f"Received: path='{path}', an archive of {sorted(names)[:5]}"
    )


def _zip(path):
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise _damaged(path, error) from error


def _damaged(path, error):
    return ValueError(
        f"The file must be a whole zip archive ({error}). Received: path='{path}'. "
        "It may be cut off or damaged: fetch it again."
    )


# Folders.


def _open_folder(path):
    config = _read_json(path / "config.json")
    preprocessor = _read_json(path / "preprocessor_config.json")
    if (path / WHOLE).exists():
        arrays = safetensors.SafetensorsFile(path / WHOLE)
    elif (path / INDEX).exists():
        arrays = ShardedFile(path / INDEX)
    else:
        raise ValueError(_no_tensors(path))
    return _with_safetensors(path, arrays, config, preprocessor)


def _no_tensors(path):
    message = (
        f"A checkpoint folder must have '{WHOLE}' or '{INDEX}'. "
        f"Received: path='{path}', with {sorted(p.name for p in path.iterdir())[:10]}."
    )
    pickles = [p.name for p in path.iterdir() if p.suffix in (".bin", ".pt", ".pth")]
    return f"{message} '{pickles[0]}' is a pickle. {HOW_TO_CONVERT}." if pickles else message


def _with_safetensors(path, arrays, config=None, preprocessor=None):
    recorded = arrays.metadata.get(METADATA)
    metadata = _parsed(recorded, path) if recorded else {}
    return CheckpointFile(path, "safetensors", arrays, metadata, config, preprocessor)


def _read_json(path):
    """The JSON object in a file, None if there is no such file."""
    if not path.exists():
        return None
    return _parsed(path.read_bytes(), path)


def _parsed(text, path):
    try:
        value = json.loads(text)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"The file must hold JSON ({error}). Received: path='{path}'") from error
    if not isinstance(value, dict):
        raise ValueError(f"The file must hold a JSON object. Received: path='{path}'")
    return value


class ShardedFile(Mapping):
    """The tensors of several safetensors files with an index that says which has which.

    Args:
        path: The index, `model.safetensors.index.json`.

    Raises:
        ValueError: if index and shards do not agree.
    """

    def __init__(self, path: str | os.PathLike):
        path = pathlib.Path(path)
        index = _parsed(path.read_bytes(), path).get("weight_map")
        if not isinstance(index, dict) or not all(isinstance(v, str) for v in index.values()):
            raise ValueError(f"An index must have a 'weight_map'. Received: path='{path}'")
        foreign = sorted(name for name in set(index.values()) if pathlib.Path(name).name != name)
        if foreign:
            raise ValueError(f"Shards must lie beside their index. Received: {foreign} in '{path}'")
        shards = {
            name: safetensors.SafetensorsFile(path.with_name(name))
            for name in sorted(set(index.values()))
        }
        held = {key: name for name, shard in shards.items() for key in shard}
        if held != index or sum(map(len, shards.values())) != len(index):
            wrong = sorted(set(held.items()) ^ set(index.items()))[:5]
            raise ValueError(
                f"The index must list every tensor of its shards once. Received: path='{path}', "
                f"which differs from them in {wrong}"
            )
        self._files = {key: shards[name] for key, name in index.items()}
        self.metadata = {k: v for shard in shards.values() for k, v in shard.metadata.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._files[name][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def shape(self, name: str) -> tuple:
        """The shape of a tensor, without reading it."""
        return self._files[name].shape(name)

    def dtype(self, name: str) -> np.dtype:
        """The type of a tensor, without reading it."""
        return self._files[name].dtype(name)


# NumPy's archives.


class NpzFile(Mapping):
    """The arrays of an `.npz` file, each read when asked for. Python objects are refused.

    It does what `np.load` does, and besides tells shapes and types without reading, verifies
    checksums ahead of reading, and names the file in every error.

    Args:
        path: The file.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path)
        self._archive = _zip(self.path)
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


def write_npz(
    path: str | os.PathLike, arrays: Mapping[str, np.ndarray], metadata: Mapping | None = None
) -> None:
    """Writes an uncompressed `.npz` file atomically, and `metadata` as JSON in `<path>.json`.

    Args:
        path: The file, whose name is used as it is.
        arrays: Arrays by key.
        metadata: What `checkpoint.record` gave. Without it an older `<path>.json` is removed, since
            it would speak of other weights.
    """
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            # The size is not known to the archive in advance, and may need 64 bits.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
    record_path = _record_path(pathlib.Path(path))
    if metadata:
        with atomic_write(record_path) as file:
            file.write(json.dumps(metadata, indent=1).encode())
    else:
        record_path.unlink(missing_ok=True)


def _record_path(path):
    return path.with_name(path.name + ".json")


def write_safetensors(
    path: str | os.PathLike, arrays: Mapping[str, np.ndarray], metadata: Mapping | None = None
) -> None:
    """Writes a `.safetensors` file that timm and transformers load.

    Args:
        path: The file.
        arrays: Arrays by key.
        metadata: What `checkpoint.record` gave.
    """
    texts = {"format": "pt"}  # PyTorch's layouts; transformers refuses files that do not say so
    if metadata:
        texts[METADATA] = json.dumps(metadata)
    safetensors.write(path, arrays, texts)
