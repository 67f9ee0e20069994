"""One file over HTTP: streamed to disk, resumed where it was cut, and checked."""

import base64
import contextlib
import dataclasses
import errno
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

CHUNK = 2**18
PAUSE = 0.5  # seconds before the second attempt; doubles with each further one
# Worth another attempt: these statuses, and connections that were accepted and then dropped.
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
DROPPED = (ConnectionResetError, ConnectionAbortedError, http.client.BadStatusLine)


class TransferError(OSError):
    """Why a file did not come. The message says neither from where nor what to do."""


class _Interrupted(Exception):
    """What another attempt may mend."""


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a file is known to be before it comes.

    Attributes:
        size: Bytes, or None.
        size_within: By how many bytes `size` may be off.
        digests: `{"sha256": hexadecimal digest, "md5": ...}`, of those that are known.
    """

    size: int | None = None
    size_within: int = 0
    digests: dict[str, str] = dataclasses.field(default_factory=dict)


def transfer(
    url: str,
    partial: str | os.PathLike,
    expected: Expected,
    *,
    timeout: float = 30.0,
    attempts: int = 5,
    progress=None,
) -> None:
    """Fetches a file and checks its length and its hashes.

    A part that is already there is continued if the server still has the same file, which it is
    asked by the entity tag kept beside the part. After an error the part stays for the next time.

    Args:
        url: `http://...` or `https://...`.
        partial: Where the file grows. Whole and checked when this returns.
        expected: What is known of it.
        timeout: Seconds without a byte after which a connection counts as dead.
        attempts: After how many attempts in a row without a new byte it gives up.
        progress: None, or a function of the bytes so far and the whole number, None if unknown.

    Raises:
        TransferError: if it cannot be had, or is not what is expected.
    """
    _Transfer(url, pathlib.Path(partial), expected, timeout, progress).run(attempts)


class _Transfer:
    def __init__(self, url, partial, expected, timeout, progress):
        self.url, self.partial, self.expected = url, partial, expected
        self.timeout, self.progress = timeout, progress or (lambda done, total: None)
        self.notes = partial.with_name(partial.name + ".json")  # what the server said of the file
        self.total, self.validator, self.digests = None, None, {}
        self.connected = self.joined = False  # joined: of pieces from several connections
        self._restore()

    def run(self, attempts):
        problem, again = self._fetched(attempts)
        if problem and again:  # pieces that do not fit together: once more from the beginning
            problem, _ = self._fetched(attempts)
        if problem:
            raise TransferError(problem)
        with contextlib.suppress(OSError):
            self.notes.unlink()

    def _fetched(self, attempts):
        """Fetches what is missing. Returns what is wrong with it, and whether it was of pieces."""
        try:
            self._fetch(attempts)
        finally:
            if self._received() == 0:
                self._forget()
        problem, joined = self._problem(), self.joined
        if problem:
            self._forget()
        return problem, joined

    def _fetch(self, attempts):
        failures = 0
        while True:
            before = self._received()
            try:
                return self._attempt()
            except _Interrupted as error:
                failures = 1 if self._received() > before else failures + 1
                if failures >= attempts:
                    raise TransferError(f"{error}, after {attempts} attempts") from error
            time.sleep(PAUSE * 2 ** (failures - 1))

    def _attempt(self):
        if self.total is None and not self.validator:
            self._forget()  # nothing would tell whether another piece is of the same file
        received = self._received()
        if self.total is not None and received == self.total:
            return
        with self._open(received) as response:
            self._begin(response, received)
            self._stream(response)

    # The request.

    def _open(self, received):
        headers = {"User-Agent": "keras_vit", "Accept-Encoding": "identity"}
        if received:
            headers["Range"] = f"bytes={received}-"
            if self.validator:
                headers["If-Range"] = self.validator
        request = urllib.request.Request(self.url, headers=headers)
        try:
            response = urllib.request.urlopen(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        self.connected = True
        return response

    def _refusal(self, error):
        if error.code == 416:  # the server has no bytes after those that are here
            self._forget()
            return _Interrupted("the server has a shorter file than what was here of it")
        message = f"the server answered {error.code} {error.reason}"
        return (_Interrupted if error.code in PASSING else TransferError)(message)

    def _unreachable(self, error):
        cause = getattr(error, "reason", error)
        if isinstance(cause, TimeoutError):
            return _Interrupted(f"the server sent nothing for {self.timeout:g} seconds")
        # Without a network there is no use in trying again, unless there was one a moment ago.
        passing = self.connected or isinstance(cause, DROPPED)
        message = f"there is no connection to {urlsplit(self.url).hostname} ({cause})"
        return (_Interrupted if passing else TransferError)(message)

    # The answer.

    def _begin(self, response, received):
        self._check_kind(response)
        if response.status == 206:
            self._check_piece(response.headers.get("Content-Range", ""), received)
            self.joined = True
            return
        self._forget()
        length = response.headers.get("Content-Length")
        self.total = int(length) if length else None
        self.digests = _digests(response.headers)
        self.validator = _validator(response.headers)
        self._check_size(self.total)
        self._check_space()
        if self.validator:
            facts = {
                "url": self.url,
                "validator": self.validator,
                "total": self.total,
                "digests": self.digests,
            }
            with self._disk():
                self.notes.write_text(json.dumps(facts))

    def _check_kind(self, response):
        if urlsplit(response.url).scheme not in ("https", urlsplit(self.url).scheme):
            raise TransferError(
                f"the server redirects to an address that is not safe: {response.url}"
            )
        if response.status not in (200, 206):
            raise TransferError(f"the server answered {response.status} {response.reason}")
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise TransferError("the server sends the file compressed, which was not asked for")
        if response.headers.get_content_type() == "text/html":
            raise TransferError("the server answered with an HTML page instead of the file")

    def _check_piece(self, content_range, received):
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", content_range)
        known = {"*"} if self.total is None else {"*", str(self.total)}
        if match is None or int(match[1]) != received or match[2] not in known:
            self._forget()
            raise _Interrupted(
                f"the server sent another piece than was asked for: {content_range!r}"
            )

    def _check_size(self, size):
        wanted, within = self.expected.size, self.expected.size_within
        if None not in (wanted, size) and abs(size - wanted) > within:
            about = "about " if within else ""
            raise TransferError(f"the file has {size:,} bytes instead of {about}{wanted:,}")

    def _check_space(self):
        free = shutil.disk_usage(self.partial.parent).free
        if self.total is not None and free < self.total:
            raise TransferError(
                f"the disk of '{self.partial.parent}' has {free:,} bytes left, and the file has "
                f"{self.total:,}"
            )

    def _stream(self, response):
        with self._disk(), open(self.partial, "ab") as file:
            self.progress(file.tell(), self.total)
            while file.tell() != self.total and (chunk := self._read(response)):
                if file.tell() == 0:
                    _check_start(chunk)
                file.write(chunk)
                self.progress(file.tell(), self.total)
            received = file.tell()
            os.fsync(file.fileno())
        if self.total is not None and received < self.total:
            raise _Interrupted(f"the connection was cut after {received:,} of {self.total:,} bytes")

    def _read(self, response):
        # `read` would lose what has come when a timeout or a cut ends it.
        try:
            return response.read1(CHUNK)
        except TimeoutError:
            raise _Interrupted(f"the server sent nothing for {self.timeout:g} seconds") from None
        except (OSError, http.client.HTTPException) as error:
            raise _Interrupted(f"the connection was cut ({error})") from None

    # What is here.

    def _received(self):
        return self.partial.stat().st_size if self.partial.exists() else 0

    def _restore(self):
        """Takes up what an earlier process has left, if it can be told to be of the same file."""
        try:
            facts = json.loads(self.notes.read_text())
            if facts["url"] != self.url:
                raise ValueError(facts["url"])
            self.validator, self.total = str(facts["validator"]), facts["total"]
            self.digests = dict(facts["digests"])
        except (OSError, ValueError, TypeError, KeyError):
            self._forget()
        self.joined = self._received() > 0

    def _forget(self):
        self.total, self.validator, self.digests, self.joined = None, None, {}, False
        for path in (self.partial, self.notes):
            with contextlib.suppress(FileNotFoundError), self._disk():
                path.unlink()

    def _problem(self):
        """What is wrong with the whole file, or None."""
        if self._received() == 0:
            return "the server sent an empty file"
        try:
            self._check_size(self._received())
        except TransferError as error:
            return str(error)
        for who, digests in (
            ("the server", self.digests),
            ("the catalogue", self.expected.digests),
        ):
            for algorithm, wanted in digests.items():
                actual = _hash(self.partial, algorithm)
                if actual != wanted.lower():
                    return f"its {algorithm} is {actual}, and {who} says {wanted}"
        return None

    @contextlib.contextmanager
    def _disk(self):
        """Turns a full or failing disk into an error that says so."""
        try:
            yield
        except (FileNotFoundError, TransferError):
            raise
        except OSError as error:
            full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
            what = "is full" if full else f"cannot be written ({error.strerror})"
            raise TransferError(f"the disk of '{self.partial.parent}' {what}") from error


def _check_start(chunk):
    start = chunk[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype", b"<html", b"<head", b"<?xml")):
        raise TransferError("the server answered with an HTML or XML page instead of the file")


def _validator(headers):
    """What tells a file from a later one at the same address, None if the server does not say."""
    tag = headers.get("ETag")
    if tag and not tag.startswith("W/"):  # a weak tag does not promise the same bytes
        return tag
    return headers.get("Last-Modified")


def _digests(headers):
    """The hashes of the whole file in an answer's headers, as hexadecimal digits."""
    found = {}
    for line in headers.get_all("x-goog-hash", []):
        for item in line.split(","):
            name, _, value = item.strip().partition("=")
            if name == "md5":
                found["md5"] = _hexadecimal(value)
    if "Content-MD5" in headers:
        found["md5"] = _hexadecimal(headers["Content-MD5"])
    return {name: value for name, value in found.items() if value}


def _hexadecimal(value):
    try:
        return base64.b64decode(value.strip(), validate=True).hex()
    except ValueError:
        return None


def _hash(path, algorithm):
    with open(path, "rb") as file:
        return hashlib.file_digest(
            file, lambda: hashlib.new(algorithm, usedforsecurity=False)
        ).hexdigest()
