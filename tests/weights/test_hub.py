"""Repositories of the Hub, by a stand-in for its library."""

import json
import sys

import pytest

from keras_vit.weights import download, hub


class HubLibrary:
    """Has one repository, whose files come when it is asked for over the network."""

    def __init__(self, folder, files):
        self.folder, self.files, self.calls, self.online = folder, files, [], True

    def snapshot_download(self, **arguments):
        self.calls.append(arguments)
        if not arguments["local_files_only"]:
            if not self.online:
                raise RuntimeError("no route to the hub")
            self.folder.mkdir(exist_ok=True)
            for name, text in self.files.items():
                (self.folder / name).write_text(text)
        elif not self.folder.is_dir():
            raise FileNotFoundError("not in the cache")
        return str(self.folder)


@pytest.fixture
def library(tmp_path, monkeypatch):
    library = HubLibrary(tmp_path / "snapshot", {"model.safetensors": "", "config.json": "{}"})
    monkeypatch.setitem(sys.modules, "huggingface_hub", library)
    return library


def test_a_repository_is_fetched_once(library, tmp_path):
    assert download.fetch("hf://google/vit-base-patch16-224@main", tmp_path) == library.folder
    call = library.calls[-1]
    assert (call["repo_id"], call["revision"]) == ("google/vit-base-patch16-224", "main")
    assert call["allow_patterns"] == ["*.safetensors", "*.json"]
    assert call["cache_dir"] == str(tmp_path)
    library.online = False
    assert download.fetch("hf://google/vit-base-patch16-224@main") == library.folder
    assert [call["local_files_only"] for call in library.calls] == [True, False, True]


def test_a_repository_that_was_cut_is_completed(library):
    shards = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    library.files = {"model.safetensors.index.json": json.dumps({"weight_map": shards})}
    library.files["model-1.safetensors"] = ""
    with pytest.raises(download.DownloadError, match="no safetensors"):
        download.fetch("hf://google/vit")
    library.files["model-2.safetensors"] = ""
    assert download.fetch("hf://google/vit") == library.folder


def test_a_repository_without_safetensors(library):
    library.files = {"pytorch_model.bin": ""}
    with pytest.raises(download.DownloadError, match=r"no safetensors, only \['pytorch_model.bin'"):
        download.fetch("hf://google/vit")


def test_the_hub_without_a_network(library):
    library.online = False
    with pytest.raises(download.DownloadError) as error:
        download.fetch("hf://google/vit")
    for words in ("hf://google/vit", "no route", "https://huggingface.co/google/vit", "`weights=`"):
        assert words in str(error.value)


def test_the_hub_without_its_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"keras3-vit\[hub\]"):
        download.fetch("hf://google/vit")


@pytest.mark.parametrize(
    "url", ["hf://google", "hf://google/vit/config.json", "hf://a b/c", "hf://"]
)
def test_addresses_that_are_no_repository(url):
    with pytest.raises(ValueError, match="organisation/repository"):
        hub.parse(url)
