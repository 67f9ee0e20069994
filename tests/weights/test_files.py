"""Opening checkpoints by their content, and whole ways from file to file."""

import contextlib
import io
import json
import os
import pathlib
import pickle
import zipfile

import ml_dtypes
import numpy as np
import pytest
from foreign_weights import assert_same, golden_arrays, logits, model
from golden_weights import GOLDENS, VIT_GOLDENS, golden_file, load_golden, read_npz
from reference_vit import random_images

from keras_vit.weights import checkpoint as checkpoints
from keras_vit.weights import files, google, huggingface, kinds, npz, safetensors, shards, timm


@pytest.mark.parametrize("name", VIT_GOLDENS)
def test_goldens(name):
    spec, weights, _ = load_golden(name)
    with files.open_checkpoint(golden_file(name)) as file:
        heads = spec["num_heads"] if spec["origin"] == "timm" else None
        checkpoint = files.read(file, heads)
        assert checkpoint.facts["origin"] == spec["origin"]
        assert_same(checkpoint.weights, weights)
        for path, array in weights.items():
            assert checkpoint.weights.shape(path) == array.shape


def test_the_config_beside_a_file_is_not_the_folders_only(tmp_path):
    with files.open_checkpoint(GOLDENS / "hf_vit") as folder:
        assert folder.config["model_type"] == "vit"
        assert folder.kind == "safetensors"
    with files.open_checkpoint(GOLDENS / "hf_vit" / "model.safetensors") as file:
        assert file.config == folder.config
    (tmp_path / "config.json").write_text("{}")
    safetensors.write(tmp_path / "other.safetensors", {})
    assert files.open_checkpoint(tmp_path / "other.safetensors").config is None


@pytest.mark.parametrize("name", [n for n in VIT_GOLDENS if not n.startswith("timm")])
def test_names_tell_the_format(name):
    format_name = "huggingface" if name == "hf_vit" else "google"
    arrays = golden_arrays(name)
    assert files.detect_format(arrays) == format_name
    for prefix in ("params/", "opt/target/") if format_name == "google" else ("module.", "model."):
        assert files.detect_format(prefix + key for key in arrays) == format_name


def test_names_tell_timm_and_bare_hugging_face_models():
    arrays = golden_arrays("timm_vit_token")
    assert files.detect_format(arrays) == "timm"
    assert files.detect_format(f"state_dict.model.{key}" for key in arrays) == "timm"
    bare = [key.removeprefix("vit.") for key in golden_arrays("hf_vit")]
    assert files.detect_format(bare) == "huggingface"


@pytest.mark.parametrize("keys", [[], ["conv1.weight", "fc.bias"], ["resnet/root_block/kernel"]])
def test_names_of_something_else(keys):
    with pytest.raises(ValueError, match="Received"):
        files.detect_format(keys)


# What is not a checkpoint.


def zipped(*names):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return buffer.getvalue()


NOT_CHECKPOINTS = {
    "html": (b"\n<!DOCTYPE html>\n<html><body>404", "HTML page"),
    "html with a byte order mark": (b"\xef\xbb\xbf<HTML>", "HTML page"),
    "xml": (b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>", "server's error"),
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "git lfs pull"),
    "empty": (b"", "is empty"),
    "pickle": (pickle.dumps({"a": 1}, protocol=2), "safetensors.torch.save_file"),
    "newer pickle": (pickle.dumps({"a": 1}, protocol=5), "safetensors.torch.save_file"),
    "torch's zip": (zipped("archive/data.pkl", "archive/data/0"), "safetensors.torch.save_file"),
    "gzip": (b"\x1f\x8b\x08\x00", "gzip"),
    "other zip": (zipped("readme.txt"), "readme.txt"),
    "empty zip": (zipped(), "archive of"),
    "zip cut off": (zipped("a.npy")[:-10], "cut off or damaged"),
    "text": (b"hello", "begins with b'hello'"),
    "a picture": (b"\x89PNG\r\n\x1a\n0000", "PNG"),
}


@pytest.mark.parametrize("name", NOT_CHECKPOINTS)
@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".pth"])
def test_other_files_are_named_for_what_they_are(tmp_path, name, suffix):
    path = tmp_path / f"weights{suffix}"
    content, message = NOT_CHECKPOINTS[name]
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        files.open_checkpoint(path)
    assert str(path) in str(error.value)


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file or folder '.*absent.npz'"):
        files.open_checkpoint(tmp_path / "absent.npz")


def test_content_counts_and_not_the_name(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(golden_file("vit_token").read_bytes())
    assert files.open_checkpoint(path).kind == "npz"
    path.write_bytes(golden_file("hf_vit").read_bytes())
    assert files.open_checkpoint(path).kind == "safetensors"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    assert files.open_checkpoint(path).kind == "weights.h5"
    path.write_bytes(zipped("metadata.json", "config.json", "model.weights.h5"))
    file = files.open_checkpoint(path)
    assert file.kind == "keras"
    with pytest.raises(ValueError, match="Keras reads its own"):
        files.read(file)


# NumPy archives.


def test_npz_does_what_numpy_does(tmp_path):
    arrays = {
        "a/b": np.arange(6.0).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "scalar": np.float32(2),
        "empty": np.zeros((0, 2)),
        "bfloat16": np.ones(3, ml_dtypes.bfloat16).view("V2"),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays)
        opened = contextlib.closing(npz.NpzFile(tmp_path / "a.npz"))
        with opened as file, np.load(tmp_path / "a.npz") as expected:
            assert sorted(file) == sorted(expected)
            assert len(file) == len(arrays) and "a/b" in file and "a/b.npy" not in file
            for name in expected:
                np.testing.assert_array_equal(file[name], expected[name], strict=True)
                assert file.shape(name) == expected[name].shape


def test_npz_with_python_objects_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=np.array({"x": 1}), b=np.zeros(2))
    file = files.open_checkpoint(path)
    np.testing.assert_array_equal(file.arrays["b"], [0, 0])
    with pytest.raises(ValueError, match="'a' must be a NumPy array") as error:
        file.arrays["a"]
    assert str(path) in str(error.value)


def test_damage_inside_an_archive_names_file_and_array(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, first=np.zeros(1000), second=np.ones(1000))
    data = bytearray(path.read_bytes())
    data[data.index(np.ones(4).tobytes()) + 1] ^= 1  # one bit of the second array
    path.write_bytes(data)
    file = files.open_checkpoint(path)
    assert file.arrays["first"].sum() == 0
    with pytest.raises(ValueError, match="'second'.*CRC") as error:
        file.arrays["second"]
    assert str(path) in str(error.value)


@pytest.mark.parametrize("compressed", [False, True])
def test_an_archive_cut_off_anywhere(tmp_path, compressed):
    path = tmp_path / "a.npz"
    (np.savez_compressed if compressed else np.savez)(path, first=np.zeros(9), second=np.ones(9))
    whole = path.read_bytes()
    for length in range(4, len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="cut off or damaged"):
            files.open_checkpoint(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_array_twice_in_an_archive(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", b"x")
        archive.writestr("a.npy", b"y")
    with pytest.raises(ValueError, match=r"\['a.npy'\] more than once"):
        files.open_checkpoint(path)


def test_writing_npz(tmp_path):
    path = tmp_path / "weights.npz"
    arrays = {
        "a/b": np.arange(6, dtype="float32").reshape(2, 3).T,
        "bfloat16": np.array([1, 2.5], ml_dtypes.bfloat16),
    }
    files.write_npz(path, arrays, {"num_heads": 3})
    written = read_npz(path)
    np.testing.assert_array_equal(written["a/b"], arrays["a/b"], strict=True)
    assert written["bfloat16"].dtype == "V2"
    assert sorted(os.listdir(tmp_path)) == ["weights.npz", "weights.npz.json"]
    assert files.open_checkpoint(path).metadata == {"num_heads": 3}
    files.write_npz(path, arrays)
    assert os.listdir(tmp_path) == ["weights.npz"]
    assert files.open_checkpoint(path).metadata == {}


def test_an_unreadable_record(tmp_path):
    path = tmp_path / "weights.npz"
    files.write_npz(path, {"a": np.zeros(1)})
    for text in ("{", "[1]"):
        path.with_name("weights.npz.json").write_text(text)
        with pytest.raises(ValueError, match=r"weights.npz.json"):
            files.open_checkpoint(path)


# Folders.


def sharded(folder, arrays, shards=2):
    """Writes arrays as transformers does when they are large."""
    names = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    weight_map = {key: names[i % shards] for i, key in enumerate(sorted(arrays))}
    for name in names:
        held = {key: arrays[key] for key in arrays if weight_map[key] == name}
        safetensors.write(folder / name, held, {"format": "pt"})
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / files.INDEX).write_text(json.dumps(index))
    return index


def test_shards(tmp_path):
    arrays = golden_arrays("hf_vit")
    sharded(tmp_path, arrays, 3)
    config = (GOLDENS / "hf_vit" / "config.json").read_text()
    (tmp_path / "config.json").write_text(config)
    (tmp_path / "preprocessor_config.json").write_text('{"image_mean": [0.5, 0.5, 0.5]}')
    file = files.open_checkpoint(tmp_path)
    assert sorted(file.arrays) == sorted(arrays)
    assert len(file.arrays) == len(arrays) and "classifier.bias" in file.arrays
    assert file.preprocessor == {"image_mean": [0.5, 0.5, 0.5]}
    assert_same(files.read(file).weights, load_golden("hf_vit").weights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda index: index["weight_map"].pop("classifier.bias"), "classifier.bias"),
        (
            lambda index: index["weight_map"].update(other="model-00001-of-00002.safetensors"),
            "other",
        ),
        (lambda index: index["weight_map"].update(other="../x.safetensors"), "beside their index"),
        (lambda index: index.pop("weight_map"), "weight_map"),
    ],
)
def test_an_index_that_does_not_fit(tmp_path, change, message):
    index = sharded(tmp_path, golden_arrays("hf_vit"))
    change(index)
    (tmp_path / files.INDEX).write_text(json.dumps(index))
    with pytest.raises(ValueError, match=message):
        files.open_checkpoint(tmp_path)


def test_a_missing_shard(tmp_path):
    sharded(tmp_path, golden_arrays("hf_vit"))
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="model-00002-of-00002"):
        files.open_checkpoint(tmp_path)


def test_a_tensor_in_two_shards(tmp_path):
    sharded(tmp_path, {"a": np.zeros(1), "b": np.zeros(1)})
    safetensors.write(
        tmp_path / "model-00001-of-00002.safetensors", {"a": np.zeros(1), "b": np.zeros(1)}
    )
    with pytest.raises(ValueError, match="every tensor of its shards once"):
        files.open_checkpoint(tmp_path)


def test_folders_without_tensors(tmp_path):
    with pytest.raises(ValueError, match="must have 'model.safetensors'"):
        files.open_checkpoint(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02")
    with pytest.raises(ValueError, match=r"pytorch_model.bin.*safetensors.torch.save_file"):
        files.open_checkpoint(tmp_path)


# From file to file.


def test_the_way_through_all_formats_keeps_every_bit(tmp_path):
    """npz -> ours -> timm -> ours -> Hugging Face -> ours -> npz."""
    _, weights, _ = load_golden("vit_token")
    start = files.read(files.open_checkpoint(golden_file("vit_token")))
    facts = {**start.facts, "image_size": (32, 32)}
    record = checkpoints.record(facts, start.position_grid)

    path = tmp_path / "timm.safetensors"
    files.write_safetensors(path, timm.write(start.weights, facts), record)
    from_timm = files.read(files.open_checkpoint(path))
    assert_same(from_timm.weights, weights)
    assert from_timm.facts == {**facts, **start.facts}

    folder = tmp_path / "hf"
    folder.mkdir()
    arrays = huggingface.write(from_timm.weights, from_timm.facts)
    files.write_safetensors(folder / "model.safetensors", arrays, record)
    config = huggingface.config(from_timm.weights, from_timm.facts)
    (folder / "config.json").write_text(json.dumps(config))
    from_hf = files.read(files.open_checkpoint(folder))
    assert_same(from_hf.weights, weights)
    assert from_hf.facts["origin"] == "google"
    assert from_hf.position_grid == (4, 4)

    files.write_npz(tmp_path / "end.npz", google.write(from_hf.weights, from_hf.facts), record)
    assert_same(read_npz(tmp_path / "end.npz"), golden_arrays("vit_token"))


@pytest.mark.parametrize("file_format", ["google", "timm", "huggingface"])
def test_a_grid_that_is_not_square_is_recorded(tmp_path, file_format):
    spec, weights = model(image_size=(18, 40), activation="gelu_tanh", layer_norm_epsilon=1e-6)
    record = checkpoints.record(spec, (6, 8))
    path = tmp_path / "weights"
    if file_format == "google":
        files.write_npz(path, google.write(weights, spec), record)
    else:
        module = timm if file_format == "timm" else huggingface
        files.write_safetensors(path, module.write(weights, spec), record)
    checkpoint = files.read(files.open_checkpoint(path))
    assert_same(checkpoint.weights, weights)
    assert checkpoint.position_grid == (6, 8)
    assert checkpoint.facts["class_token_position"] is True
    assert checkpoint.facts["image_size"] == (18, 40)
    images = random_images(spec, seed=1)
    np.testing.assert_allclose(  # the layout in memory differs, and so the order of sums
        logits(checkpoint.facts, checkpoint.weights, images),
        logits(spec, weights, images),
        rtol=1e-12,
    )


def test_written_safetensors_say_what_other_libraries_look_for(tmp_path):
    path = tmp_path / "model.safetensors"
    files.write_safetensors(path, {"a": np.zeros(1, "float32")})
    assert safetensors.SafetensorsFile(path).metadata == {"format": "pt"}


def test_readers_import_no_keras():
    """The modules are functions of arrays; only the package around them knows Keras."""
    folder = pathlib.Path(files.__file__).parent
    readers = (google, timm, huggingface)
    for module in (*readers, safetensors, shards, npz, kinds, checkpoints, files):
        text = (folder / pathlib.Path(module.__file__).name).read_text()
        assert "import keras\n" not in text and "from keras " not in text
