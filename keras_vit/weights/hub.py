"""Repositories of the Hugging Face Hub, through its own library and cache."""

import contextlib
import json
import os
import pathlib
import re

SCHEME = "hf://"
INDEX = "model.safetensors.index.json"

# Pickles are never fetched, and of further folders (ONNX and the like) nothing is.
WANTED = ["*.safetensors", "*.json"]
UNWANTED = ["*/*"]


class HubError(OSError):
    """Why a repository did not come."""


def snapshot(url: str, cache_dir: str | os.PathLike | None = None) -> pathlib.Path:
    """The folder of a repository's safetensors and configuration, fetched unless it is here.

    Args:
        url: `hf://organisation/repository`, with `@revision` to fix a branch, tag or commit.
        cache_dir: A folder for it; None is the Hub's own cache, shared with other libraries.

    Raises:
        HubError: if the repository cannot be had, or has no safetensors.
        ImportError: if `huggingface_hub` is not installed.
        ValueError: if `url` is not of this form.
    """
    repository, revision = parse(url)
    library = _library()

    def folder(local_files_only):
        path = library.snapshot_download(
            repo_id=repository,
            revision=revision,
            cache_dir=None if cache_dir is None else str(cache_dir),
            allow_patterns=WANTED,
            ignore_patterns=UNWANTED,
            local_files_only=local_files_only,
        )
        return pathlib.Path(path)

    # The library's errors are of several families, by its version and the one it uses for HTTP.
    with contextlib.suppress(Exception):
        if has_tensors(here := folder(local_files_only=True)):
            return here
    try:
        fetched = folder(local_files_only=False)
    except Exception as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise HubError(f"{type(error).__name__}: {reason}") from error
    if not has_tensors(fetched):
        names = sorted(path.name for path in fetched.iterdir())
        raise HubError(f"the repository has no safetensors, only {names}")
    return fetched


def parse(url: str) -> tuple[str, str | None]:
    """`(repository, revision)` of an address `hf://organisation/repository[@revision]`."""
    match = re.fullmatch(r"hf://([\w.-]+/[\w.-]+)(?:@(\S+))?", url)
    if match is None:
        raise ValueError(
            "A repository of the Hugging Face Hub must be given as "
            f"'hf://organisation/repository' or '...@revision'. Received: {url!r}"
        )
    return match[1], match[2]


def has_tensors(folder: pathlib.Path) -> bool:
    """Whether all tensors of a repository are there: one file, or the shards of an index."""
    if (folder / "model.safetensors").is_file():
        return True
    try:
        shards = json.loads((folder / INDEX).read_text())["weight_map"].values()
    except (OSError, ValueError, KeyError, AttributeError):
        return False
    return all((folder / shard).is_file() for shard in set(shards))


def _library():
    try:
        import huggingface_hub
    except ImportError as error:
        raise ImportError(
            "Weights at the Hugging Face Hub need its library: "
            'pip install "keras3-vit[hub]". Google\'s own files do not.'
        ) from error
    return huggingface_hub
