"""Opening checkpoints of any kind, reading them in whichever names they have, and writing them.

Arrays are read from disk one by one, when they are asked for. Keras's own files are recognised and
left to Keras. Nothing is ever unpickled, since that runs code of whoever made the file.
"""

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterable, Mapping

import numpy as np

from keras_vit.weights import (
    bit,
    google,
    huggingface,
    json_objects,
    kinds,
    npz,
    others,
    safetensors,
    timm,
)
from keras_vit.weights.atomic import atomic_write
from keras_vit.weights.checkpoint import Checkpoint
from keras_vit.weights.mapping import strip_wrappers
from keras_vit.weights.shards import ShardedFile

METADATA = "keras_vit"  # the key under which safetensors metadata has what keras_vit recorded
INDEX = "model.safetensors.index.json"
WHOLE = "model.safetensors"


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
        if isinstance(self.arrays, npz.NpzFile):
            self.arrays.verify()

    def close(self) -> None:
        """Closes the file. Arrays that were read stay."""
        if isinstance(self.arrays, npz.NpzFile):
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
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder '{path}'.")
    if path.is_dir():
        return _open_folder(path)
    kind = kinds.recognised(path)
    if kind == "npz":
        record = json_objects.read(_record_path(path)) or {}
        return CheckpointFile(path, kind, npz.NpzFile(path), record)
    if kind == "safetensors":
        arrays = safetensors.SafetensorsFile(path)
        # A file of another name may be one of several, of which a configuration speaks of one.
        beside = path.parent if path.name == WHOLE else None
        return _with_safetensors(path, arrays, beside)
    return CheckpointFile(path, kind)


def read(file: CheckpointFile, num_heads: int | None = None) -> Checkpoint:
    """Reads an opened `.npz` or `.safetensors` checkpoint in whichever names it has.

    Args:
        file: From `open_checkpoint`.
        num_heads: Heads of every attention layer, for the names of timm and of transformers, which
            do not tell. A number that contradicts what is said beside them raises.

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
    beside = {"num_heads": num_heads, "config": file.config, "metadata": file.metadata}
    if format_name == "timm":
        return timm.read(file.arrays, **beside)
    return huggingface.read(file.arrays, preprocessor=file.preprocessor, **beside)


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


# Safetensors, alone or in a folder.


def _open_folder(path):
    if (path / WHOLE).exists():
        arrays = safetensors.SafetensorsFile(path / WHOLE)
    elif (path / INDEX).exists():
        arrays = ShardedFile(path / INDEX)
    else:
        raise ValueError(_no_tensors(path))
    return _with_safetensors(path, arrays, path)


def _no_tensors(path):
    message = (
        f"A checkpoint folder must have '{WHOLE}' or '{INDEX}'. "
        f"Received: path='{path}', with {sorted(p.name for p in path.iterdir())[:10]}."
    )
    pickles = [p.name for p in path.iterdir() if p.suffix in (".bin", ".pt", ".pth")]
    return f"{message} '{pickles[0]}' is a pickle. {kinds.HOW_TO_CONVERT}." if pickles else message


def _with_safetensors(path, arrays, folder):
    """The opened file, with the configurations in a folder, which may be None."""
    recorded = arrays.metadata.get(METADATA)
    metadata = json_objects.parsed(recorded, path) if recorded else {}
    file = CheckpointFile(path, "safetensors", arrays, metadata)
    if folder is not None:
        file.config = json_objects.read(folder / "config.json")
        file.preprocessor = json_objects.read(folder / "preprocessor_config.json")
    return file


# Writing.


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
    npz.write(path, arrays)
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
