"""Published checkpoints: fetched once, checked, and kept."""

import hashlib
import os
import pathlib
import re
import sys
import time
import uuid
from urllib.parse import unquote, urlsplit

from keras_vit.weights import hub
from keras_vit.weights.lock import locked
from keras_vit.weights.transfer import Expected, TransferError, transfer

TIMEOUT = 30.0  # seconds
ATTEMPTS = 5


class DownloadError(OSError):
    """Weights that could not be fetched: from where, why, and how to do without a connection."""


def fetch(
    source,
    cache_dir: str | os.PathLike | None = None,
    *,
    timeout: float = TIMEOUT,
    attempts: int = ATTEMPTS,
    progress: bool = True,
) -> pathlib.Path:
    """The path of a published checkpoint on this machine, fetched unless it is here already.

    A file that is here needs no network. One that is not is streamed beside its place, continued
    where an earlier attempt was cut, checked by its length and by every hash that the server or the
    catalogue gives, and only then moved into place. Several processes may ask for one file at once:
    one fetches it and the others wait.

    Args:
        source: A `catalogue.WeightEntry`, or an address: `https://...` of a file, or
            `hf://organisation/repository[@revision]`.
        cache_dir: Where files are kept. None is `keras_vit` in `$KERAS_HOME` or `~/.keras`, and
            for repositories the Hugging Face Hub's own cache.
        timeout: Seconds without a byte after which a connection counts as dead.
        attempts: After how many attempts in a row without a new byte it gives up.
        progress: Whether to show on the standard error how far it is.

    Returns:
        The path of the file, or of the folder of a repository.

    Raises:
        DownloadError: if it cannot be fetched. The message has the address, the place in the cache
            and the way without a connection.
        ValueError: if the address is of another kind.
        ImportError: if a repository is asked for and `huggingface_hub` is not installed.

    Example:

    >>> fetch(catalogue.find("ViT_B16", "imagenet"))
    """
    url = source if isinstance(source, str) else getattr(source, "url", None)
    if not isinstance(url, str):
        raise TypeError(
            "`source` must be an address or an entry of the catalogue. "
            f"Received: source={source!r} (of type {type(source).__name__})"
        )
    if url.startswith(hub.SCHEME):
        return _fetch_repository(url, cache_dir)
    path = cache_path(url, cache_dir)
    if path.is_file():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(
            path.with_name(f".{path.name}.lock"),
            lambda: progress and _say(f"Waiting for another process that downloads {url}"),
        ) as exclusive:
            if not path.is_file():  # the other process may have fetched it
                _fetch_file(url, path, _expected(source), exclusive, timeout, attempts, progress)
    except TransferError as error:
        raise DownloadError(_explained(url, path, error)) from error
    except OSError as error:
        raise DownloadError(_unwritable(url, path, error)) from error
    return path


def cache_path(url: str, cache_dir: str | os.PathLike | None = None) -> pathlib.Path:
    """Where the file of an address is kept, whether it is there or not.

    The folder has the address in its name, since different checkpoints share file names.

    Args:
        url: `https://...` or `http://...`.
        cache_dir: As for `fetch`.

    Raises:
        ValueError: if the address is of another kind.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        hint = ""
        if parts.scheme == "gs":
            hint = f" Take 'https://storage.googleapis.com/{url.removeprefix('gs://')}'."
        raise ValueError(
            "Weights can be fetched from addresses https://... and hf://organisation/repository; "
            f"the path of a file goes to `weights=` as it is. Received: {url!r}.{hint}"
        )
    name = re.sub(r"[^\w.+=-]", "_", unquote(parts.path).rpartition("/")[2]).lstrip(".")
    host = re.sub(r"[^\w.-]", "_", parts.hostname)
    folder = f"{host}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"
    return _root(cache_dir) / folder / (name or "weights")


def _root(cache_dir):
    if cache_dir is not None:
        return pathlib.Path(cache_dir)
    home = os.environ.get("KERAS_HOME")
    return (pathlib.Path(home) if home else pathlib.Path.home() / ".keras") / "keras_vit"


def _expected(source):
    if isinstance(source, str):
        return Expected()
    hashes = {"sha256": source.sha256, "md5": source.md5}
    known = {name: digest for name, digest in hashes.items() if digest}
    return Expected(source.size, source.size_within, known)


def _fetch_file(url, path, expected, exclusive, timeout, attempts, progress):
    # Without a lock, each process has a part of its own, which no other can continue.
    partial = path.with_name(f".{path.name}.{'' if exclusive else uuid.uuid4().hex + '.'}part")
    bar = _Bar(url, path) if progress else None
    try:
        transfer(
            url, partial, expected, timeout=timeout, attempts=attempts, progress=bar and bar.show
        )
        os.replace(partial, path)
    finally:
        if bar:
            bar.close()
        if not exclusive:
            partial.unlink(missing_ok=True)
            partial.with_name(partial.name + ".json").unlink(missing_ok=True)


def _fetch_repository(url, cache_dir):
    repository, _ = hub.parse(url)
    try:
        return hub.snapshot(url, cache_dir)
    except hub.HubError as error:
        raise DownloadError(
            f"Weights could not be fetched from {url}: {error}. Without a connection: fetch "
            f"'config.json' and '*.safetensors' of https://huggingface.co/{repository} by other "
            "means into a folder, and pass its path as `weights=`."
        ) from error


def _explained(url, path, error):
    return (
        f"Weights could not be fetched from {url}: {error}. Without a connection: fetch this "
        f"address by other means and put the file at '{path}', or pass its path as `weights=`."
    )


def _unwritable(url, path, error):
    return (
        f"Weights from {url} could not be kept in '{path.parent}': {error}. Set the environment "
        "variable KERAS_HOME to a folder that can be written, or fetch this address by other means "
        "and pass the path of the file as `weights=`."
    )


class _Bar:
    """A line that grows on a terminal; elsewhere one line, so that logs stay short."""

    WIDTH, EVERY = 30, 0.1  # characters; seconds between two drawings

    def __init__(self, url, path):
        _say(f"Downloading {url}\nto {path}")
        self.terminal = sys.stderr.isatty()
        self.drawn, self.started = 0.0, None

    def show(self, done, total):
        now = time.monotonic()
        if self.started is None:
            self.started = (now, done)
        if self.terminal and (now - self.drawn >= self.EVERY or done == total):
            self.drawn = now
            print(f"\r{self._line(now, done, total)}", end="", file=sys.stderr, flush=True)

    def _line(self, now, done, total):
        began, at = self.started
        rate = (done - at) / 1e6 / max(now - began, 1e-3)
        if not total:
            return f"{done / 1e6:.1f} MB, {rate:.1f} MB/s "
        filled = "=" * int(self.WIDTH * done / total)
        return f"[{filled:<{self.WIDTH}}] {done / 1e6:.1f}/{total / 1e6:.1f} MB, {rate:.1f} MB/s "

    def close(self):
        if self.terminal and self.drawn:
            _say("")


def _say(text):
    print(text, file=sys.stderr, flush=True)
