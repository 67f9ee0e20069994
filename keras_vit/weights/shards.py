"""Safetensors in several files, as large models are published."""

import os
import pathlib
from collections.abc import Iterator, Mapping

import numpy as np

from keras_vit.weights import json_objects
from keras_vit.weights.safetensors import SafetensorsFile


class ShardedFile(Mapping):
    """The tensors of several safetensors files with an index that says which has which.

    Args:
        path: The index, `model.safetensors.index.json`.

    Raises:
        ValueError: if index and shards do not agree.
    """

    def __init__(self, path: str | os.PathLike):
        path = pathlib.Path(path)
        index = json_objects.parsed(path.read_bytes(), path).get("weight_map")
        if not isinstance(index, dict) or not all(isinstance(v, str) for v in index.values()):
            raise ValueError(f"An index must have a 'weight_map'. Received: path='{path}'")
        foreign = sorted(name for name in set(index.values()) if pathlib.Path(name).name != name)
        if foreign:
            raise ValueError(f"Shards must lie beside their index. Received: {foreign} in '{path}'")
        shards = {
            name: SafetensorsFile(path.with_name(name)) for name in sorted(set(index.values()))
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
