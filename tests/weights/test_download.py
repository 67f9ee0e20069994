"""Fetching files: from a server that fails in every way, and into the cache."""

import base64
import contextlib
import dataclasses
import hashlib
import io
import os
import pathlib
import subprocess
import sys
import threading
import types

import pytest
from failing_server import DATA, Handler, Page, Server

from keras_vit.weights import catalogue, download, lock, transfer

ENTRY = catalogue.find("ViT_B16", "imagenet")


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(transfer, "PAUSE", 0.001)
    server = Server(("127.0.0.1", 0), Handler)
    server.pages, server.requests = {}, []
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    for page in server.pages.values():
        if page.stall is not None:
            page.stall.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def get(server, tmp_path):
    """Fetches `weights.npz`, as the given page, into `tmp_path`."""

    def get(page=None, **arguments):
        if page is not None:
            server.pages["/weights.npz"] = page
        facts = {"size": None, "size_within": 0, **arguments.pop("facts", {})}
        entry = dataclasses.replace(ENTRY, url=f"{server.url}/weights.npz", **facts)
        return download.fetch(entry, tmp_path, progress=False, **arguments)

    return get


def ranges(server):
    return [requested for _, requested in server.requests]


def left(folder):
    """The names of all files under a folder."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


# What goes well.


def test_a_file_is_fetched_once(get, server, tmp_path):
    path = get(Page())
    assert path.read_bytes() == DATA
    assert path == download.cache_path(f"{server.url}/weights.npz", tmp_path)
    assert left(tmp_path) == ["weights.npz"]
    server.pages.clear()  # a warm cache asks nobody
    assert get() == path
    assert len(server.requests) == 1


def test_a_cut_connection_is_resumed(get, server, tmp_path):
    path = get(Page(cuts=[30_000, 20_000, 1]))
    assert path.read_bytes() == DATA
    assert ranges(server) == [None, "bytes=30000-", "bytes=50000-", "bytes=50001-"]
    assert left(tmp_path) == ["weights.npz"]


def test_only_attempts_without_a_new_byte_count(get, server):
    assert get(Page(cuts=[10_000] * 6), attempts=2).read_bytes() == DATA
    assert len(server.requests) == 7


def test_the_next_run_resumes(get, server):
    with pytest.raises(download.DownloadError, match="cut after 30,000 of 102,400 bytes"):
        get(Page(cuts=[30_000]), attempts=1)
    assert get().read_bytes() == DATA
    assert ranges(server) == [None, "bytes=30000-"]


def test_the_next_run_starts_over_if_the_file_has_changed(get, server):
    with pytest.raises(download.DownloadError):
        get(Page(cuts=[30_000]), attempts=1)
    changed = DATA[::-1]
    assert get(Page(changed, headers={"ETag": '"2"'})).read_bytes() == changed


def test_the_next_run_starts_over_if_nothing_tells_the_file(get, server):
    with pytest.raises(download.DownloadError):
        get(Page(cuts=[30_000], headers={"ETag": 'W/"weak"'}), attempts=1)
    assert get().read_bytes() == DATA
    assert ranges(server) == [None, None]


def test_one_run_resumes_by_the_length_alone(get, server):
    assert get(Page(cuts=[30_000], headers={})).read_bytes() == DATA
    assert ranges(server) == [None, "bytes=30000-"]


def test_a_whole_part_is_only_checked(get, server, tmp_path):
    page = Page(headers={"ETag": '"1"', "Content-MD5": md5(DATA)})
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(transfer._Transfer, "_problem", interrupt)
        get(page)
    assert get().read_bytes() == DATA
    assert len(server.requests) == 1


def interrupt(self):
    raise KeyboardInterrupt


@pytest.mark.parametrize("flaw", [{"ranges": False}, {"shift": 5}])
def test_a_server_that_cannot_resume(get, server, flaw):
    assert get(Page(cuts=[30_000], **flaw)).read_bytes() == DATA
    assert ranges(server)[:2] == [None, "bytes=30000-"]


def test_an_answer_without_length(get):
    assert get(Page(length=False)).read_bytes() == DATA


def test_a_passing_failure(get, server):
    assert get(Page(status=[503, 429, 200])).read_bytes() == DATA
    assert len(server.requests) == 3


def test_pieces_of_two_files_are_fetched_again(get, server, tmp_path):
    page = Page(DATA, cuts=[30_000], headers={"ETag": '"1"', "Content-MD5": md5(DATA)})
    with pytest.raises(download.DownloadError):
        get(page, attempts=1)
    (part,) = tmp_path.rglob("*.part")
    part.write_bytes(bytes(30_000))
    assert get().read_bytes() == DATA
    assert ranges(server) == [None, "bytes=30000-", None]


def test_redirects_are_followed_to_the_web_only(get, server, tmp_path):
    server.pages["/moved.npz"] = Page()
    address = f"{server.url}/moved.npz"
    assert get(Page(status=[302], headers={"Location": address})).read_bytes() == DATA
    server.pages["/other.npz"] = Page(status=[302], headers={"Location": "file:///etc/hostname"})
    with pytest.raises(download.DownloadError, match="302"):
        download.fetch(f"{server.url}/other.npz", tmp_path, progress=False)


# What is wrong with the file.


def md5(data):
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def assert_refused(get, tmp_path, page, match, **arguments):
    with pytest.raises(download.DownloadError, match=match):
        get(page, **arguments)
    assert not list(tmp_path.rglob("weights.npz"))


def test_a_file_of_another_length_than_the_catalogues(get, server, tmp_path):
    facts = {"size": len(DATA) + 1000, "size_within": 999}
    assert_refused(get, tmp_path, Page(), "102,400 bytes instead of about 103,400", facts=facts)
    page = Page(length=False)
    assert_refused(get, tmp_path, page, "102,400 bytes instead of about 103,400", facts=facts)
    assert left(tmp_path) == []
    get(facts={"size": len(DATA) + 1000, "size_within": 1000})


def test_a_file_with_another_hash_than_the_server_says(get, server, tmp_path):
    headers = {"x-goog-hash": ["crc32c=AAAAAA==", f"md5={md5(b'another')}"]}
    assert_refused(get, tmp_path, Page(headers=headers), "md5 is .* and the server says")
    assert left(tmp_path) == []
    assert len(server.requests) == 1
    assert get(Page(headers={"x-goog-hash": f"crc32c=AAAAAA==,md5={md5(DATA)}"})).is_file()


def test_a_file_with_another_hash_than_the_catalogues(get, tmp_path):
    facts = {"sha256": hashlib.sha256(b"another").hexdigest()}
    assert_refused(get, tmp_path, Page(), "sha256 is .* and the catalogue says", facts=facts)
    assert left(tmp_path) == []
    assert get(facts={"sha256": hashlib.sha256(DATA).hexdigest().upper()}).is_file()


@pytest.mark.parametrize(
    "page",
    [
        Page(b"Sign in", headers={"Content-Type": "text/html; charset=utf-8"}),
        Page(b"\n<!DOCTYPE html><html>Sign in</html>"),
        Page(b"<?xml version='1.0'?><Error>NoSuchKey</Error>"),
    ],
)
def test_a_page_instead_of_the_file(get, tmp_path, page):
    assert_refused(get, tmp_path, page, "HTML")
    assert left(tmp_path) == []


def test_an_empty_file(get, tmp_path):
    assert_refused(get, tmp_path, Page(b""), "empty")


def test_a_compressed_answer(get, tmp_path):
    assert_refused(get, tmp_path, Page(headers={"Content-Encoding": "gzip"}), "compressed")


# What is wrong with the connection.


@pytest.mark.parametrize("status", [404, 403, 410])
def test_a_refusal_is_final(get, server, tmp_path, status):
    assert_refused(get, tmp_path, Page(status=[status] * 9), f"answered {status}")
    assert len(server.requests) == 1


def test_a_server_that_stays_out_of_order(get, server, tmp_path):
    assert_refused(get, tmp_path, Page(status=[503] * 9), "503 .* after 3 attempts", attempts=3)
    assert len(server.requests) == 3


def test_a_connection_that_is_always_cut(get, server, tmp_path):
    page = Page(cuts=[30_000] + [0] * 9)
    assert_refused(get, tmp_path, page, "cut after 30,000 of 102,400 bytes, after 4", attempts=4)
    assert len(server.requests) == 4


def test_a_server_that_stops_sending(get, server, tmp_path):
    page = Page(stall=threading.Event())
    arguments = {"timeout": 0.5, "attempts": 2}
    assert_refused(get, tmp_path, page, "sent nothing for 0.5 seconds, after 2", **arguments)
    page.stall.set()
    assert get().read_bytes() == DATA  # with what had come before
    assert ranges(server)[1] == f"bytes={len(DATA) // 2}-"


def test_pieces_that_nothing_tells_are_not_joined(get, server, tmp_path):
    page = Page(length=False, headers={}, stall=threading.Event())
    assert_refused(get, tmp_path, page, "sent nothing", timeout=0.5, attempts=2)
    assert ranges(server) == [None, None]


def test_without_a_network_the_error_says_what_to_do(get, server, tmp_path):
    url = f"{server.url}/weights.npz"
    server.shutdown()
    server.server_close()
    with pytest.raises(download.DownloadError) as error:
        get()
    path = download.cache_path(url, tmp_path)
    for words in (url, str(path), "no connection", "by other means", "`weights=`"):
        assert words in str(error.value)
    assert "attempts" not in str(error.value)  # nobody waits for what will not come
    path.write_bytes(DATA)  # as it says
    assert get() == path


# The cache.


def test_files_of_one_name_do_not_mix(server, tmp_path):
    addresses = [f"{server.url}/{name}" for name in ("a/ViT.npz", "b/ViT.npz", "b/ViT.npz?v=2")]
    for number, path in enumerate(("/a/ViT.npz", "/b/ViT.npz", "/b/ViT.npz?v=2")):
        server.pages[path] = Page(DATA[number:])
    paths = [download.fetch(address, tmp_path, progress=False) for address in addresses]
    assert [path.read_bytes() for path in paths] == [DATA, DATA[1:], DATA[2:]]
    assert {path.name for path in paths} == {"ViT.npz"}


def test_the_cache_is_where_kerass_is(monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    assert download.cache_path(ENTRY.url).parent.parent == tmp_path / "keras_vit"
    assert download.cache_path(ENTRY.url).name == ENTRY.url.rpartition("/")[2]
    monkeypatch.delenv("KERAS_HOME")
    monkeypatch.setattr(pathlib.Path, "home", lambda: tmp_path / "home")
    assert download.cache_path(ENTRY.url).is_relative_to(tmp_path / "home" / ".keras/keras_vit")


def test_names_from_addresses_stay_in_their_folder(tmp_path):
    for url in (
        "https://host/..%2F..%2Fx.npz",
        "https://host/a%00b",
        "https://host/..",
        "https://h",
    ):
        path = download.cache_path(url, tmp_path)
        assert path.resolve().parent.parent == tmp_path.resolve()
        assert path.name.strip(".") and "\0" not in path.name


@pytest.mark.parametrize(
    "source", ["file:///etc/passwd", "gs://bucket/weights.npz", "ftp://host/x", "weights.npz", ""]
)
def test_other_addresses_are_refused(source, tmp_path):
    with pytest.raises(ValueError, match="Received") as error:
        download.fetch(source, tmp_path)
    if source.startswith("gs"):
        assert "https://storage.googleapis.com/bucket/weights.npz" in str(error.value)
    with pytest.raises(TypeError, match="source"):
        download.fetch(pathlib.Path("weights.npz"), tmp_path)


def test_a_cache_that_cannot_be_written(server, tmp_path):
    (tmp_path / "file").write_text("in the way of a folder")
    with pytest.raises(download.DownloadError, match="KERAS_HOME") as error:
        download.fetch(f"{server.url}/weights.npz", tmp_path / "file")
    assert str(tmp_path / "file") in str(error.value)
    assert not server.requests


def test_a_disk_that_is_too_small(get, tmp_path, monkeypatch):
    monkeypatch.setattr(
        transfer.shutil, "disk_usage", lambda path: types.SimpleNamespace(free=1000)
    )
    assert_refused(get, tmp_path, Page(), "has 1,000 bytes left, and the file has 102,400")
    assert left(tmp_path) == []


def test_a_file_system_without_locks(get, tmp_path, monkeypatch):
    def cannot(descriptor):
        raise OSError("No locks available")

    monkeypatch.setattr(lock, "_try_lock", cannot)
    page = Page(status=[404, 200])
    assert_refused(get, tmp_path, page, "404")
    assert get().read_bytes() == DATA
    assert [name for name in left(tmp_path) if "part" in name] == []


# Several processes. They import nothing of Keras, which would take seconds.

CHILD = """
import pathlib, sys, types
for name in ("keras_vit", "keras_vit.weights"):
    sys.modules[name] = module = types.ModuleType(name)
    module.__path__ = [str(pathlib.Path(sys.argv[1], *name.split(".")))]
from keras_vit.weights import download
assert "keras" not in sys.modules and "numpy" not in sys.modules
print(download.fetch(sys.argv[2], sys.argv[3]))
"""


def child(url, folder):
    root = pathlib.Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(root), url, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "no_proxy": "*"},
    )


def test_two_processes_at_once(server, tmp_path):
    page = server.pages["/weights.npz"] = Page(stall=threading.Event())
    url = f"{server.url}/weights.npz"
    children = [child(url, tmp_path) for _ in range(2)]
    # The one that waits says so; the answer is held back until then.
    waits = [threading.Event() for _ in children]
    readers = [watch(*pair, page) for pair in zip(children, waits, strict=True)]
    outputs = [process.stdout.read() for process in children]
    for reader in readers:
        reader.join()
    codes = [process.wait() for process in children]
    for process in children:
        process.stdout.close()
        process.stderr.close()
    path = download.cache_path(url, tmp_path)
    assert codes == [0, 0] and outputs == [f"{path}\n"] * 2
    assert sorted(event.is_set() for event in waits) == [False, True]
    assert path.read_bytes() == DATA
    assert len(server.requests) == 1
    assert left(tmp_path) == ["weights.npz"]


def watch(process, waits, page):
    def read():
        for line in process.stderr:
            if line.startswith("Waiting"):
                waits.set()
                page.stall.set()

    thread = threading.Thread(target=read)
    thread.start()
    return thread


def test_a_killed_process_leaves_no_lock(server, tmp_path):
    page = server.pages["/weights.npz"] = Page(stall=threading.Event())
    url = f"{server.url}/weights.npz"
    process = child(url, tmp_path)
    (part,) = eventually(lambda: [p for p in tmp_path.rglob("*.part") if p.stat().st_size])
    process.kill()
    process.communicate()
    page.stall.set()
    assert download.fetch(url, tmp_path, progress=False).read_bytes() == DATA
    assert ranges(server)[1] == f"bytes={len(DATA) // 2}-"
    assert left(tmp_path) == ["weights.npz"]


def eventually(condition):
    waiting = threading.Event()
    for _ in range(500):
        with contextlib.suppress(FileNotFoundError):
            if found := condition():
                return found
        waiting.wait(0.02)
    raise AssertionError("it did not happen in 10 seconds")


# What is shown.


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_a_bar(server, tmp_path, monkeypatch):
    server.pages["/weights.npz"] = Page()
    monkeypatch.setattr(sys, "stderr", Terminal())
    download.fetch(f"{server.url}/weights.npz", tmp_path)
    assert f"[{'=' * 30}] 0.1/0.1 MB" in sys.stderr.getvalue()


def test_a_log_gets_one_message(server, tmp_path, capsys):
    server.pages["/weights.npz"] = Page()
    path = download.fetch(f"{server.url}/weights.npz", tmp_path)
    assert capsys.readouterr().err == f"Downloading {server.url}/weights.npz\nto {path}\n"
