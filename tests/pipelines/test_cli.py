"""The program itself: help, errors, and the commands that need no data."""

import json
import pathlib

import keras
import numpy as np
import other_processes
import pytest

import keras_vit
from pipelines import cli

COMMANDS = pathlib.Path(cli.__file__).parent / "commands"


def test_every_command_that_is_listed_is_there():
    assert cli.COMMANDS.keys() == {
        path.stem.replace("_", "-") for path in COMMANDS.glob("*.py") if path.stem != "__init__"
    }


def test_help_lists_every_command_in_a_line(capsys):
    assert cli.main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, text in cli.COMMANDS.items():
        assert [line.split() for line in lines].count([name, *text.split()]) == 1


@pytest.mark.parametrize("name", ["models", "convert", "export", "predict", "bench"])
def test_help_of_a_command_shows_a_line_that_runs(name, capsys):
    assert cli.main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"example:\n  keras-vit {name} " in shown
    assert "TensorFlow" not in shown or name == "export"


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "commands:"),
        (["prdict"], "no command 'prdict'; choose one of"),
        (["--json", "models"], "--json"),
        (["models", "--jsn"], "unknown arguments: --jsn"),
        (["models", "--js"], "unknown arguments: --js"),  # abbreviations would change by themselves
        (["models", "ViT_B17"], "Received: model='ViT_B17'"),
        (["convert", "missing.npz", "a.keras"], "missing.npz"),
        (["convert", "missing.npz", "a.bin"], "Received: 'a.bin'"),
        (["predict"], "required: IMAGE, --model"),
        (["export", "missing.keras", "--format", "onnx", "--out", "a.onnx"], "'missing.keras'"),
        (["export", "m.keras", "--format", "onnx", "--out", "a", "--image-size", "0x8"], "0x8"),
    ],
)
def test_wrong_lines_are_answered_in_a_sentence(arguments, words, capsys):
    assert cli.main(arguments) == 2
    answer = capsys.readouterr().err
    assert words in answer and "Traceback" not in answer


def test_a_traceback_where_it_is_asked_for(monkeypatch):
    monkeypatch.setenv(cli.TRACEBACK, "1")
    with pytest.raises(ValueError, match="Received: model='ViT_B17'"):
        cli.main(["models", "ViT_B17"])


def test_faults_of_the_program_are_not_dressed_up(monkeypatch):
    monkeypatch.setattr("pipelines.commands.models.run", lambda options: {}["missing"])
    with pytest.raises(KeyError):
        cli.main(["models"])


def test_a_bad_image_met_in_training_is_told_in_a_sentence(monkeypatch, capsys):
    tf = pytest.importorskip("tensorflow")

    def read(number):
        if number == 2:
            raise ValueError("b/3.jpg cannot be decoded: it ends too early")
        return number

    def run(options):
        numbers = tf.data.Dataset.range(4)
        return list(numbers.map(lambda n: tf.numpy_function(read, [n], "int64")))

    monkeypatch.setattr("pipelines.commands.models.run", run)
    assert cli.main(["models"]) == 2
    told = capsys.readouterr().err
    assert told == "keras-vit: error: b/3.jpg cannot be decoded: it ends too early\n"


def test_faults_of_tensorflow_are_not_dressed_up(monkeypatch):
    tf = pytest.importorskip("tensorflow")
    monkeypatch.setattr(
        "pipelines.commands.models.run", lambda options: tf.ones((2, 3)) @ tf.ones((2, 3))
    )
    with pytest.raises(tf.errors.InvalidArgumentError):
        cli.main(["models"])


def test_warnings_become_sentences(monkeypatch, capsys, recwarn):
    import warnings

    def run(options):
        warnings.simplefilter("always")
        warnings.warn("the head is fresh", stacklevel=2)

    monkeypatch.setattr("pipelines.commands.models.run", run)
    assert cli.main(["models"]) == 0
    assert capsys.readouterr().err == "keras-vit: the head is fresh\n"


def test_models_as_json(capsys):
    assert cli.main(["models", "ViT_Ti16", "R_ViT_Ti16", "--json"]) == 0
    rows = {row["model"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == ["ViT_Ti16", "R_ViT_Ti16"]
    # (16 * 16 * 3 + 12 * (4 * 192 + 2 * 768)) * 192 a patch or token, attention, the classifier
    macs = 196 * 768 * 192 + 197 * 12 * 2304 * 192 + 12 * 2 * 197**2 * 192 + 192 * 1000
    assert rows["ViT_Ti16"]["macs"] == macs
    assert rows["ViT_Ti16"]["parameters"] == 5_717_416
    weights = {entry["name"]: entry for entry in rows["ViT_Ti16"]["weights"]}
    best = weights["augreg_imagenet21k_ft_imagenet_224"]
    assert best["aliases"] == ["imagenet"] and best["top1"] == 75.45
    assert best["url"].startswith("https://storage.googleapis.com/vit_models/augreg/Ti_16-")
    assert best["licence"] == "Apache-2.0" and best["image_size"] == [224, 224]


def test_models_in_detail(capsys):
    assert cli.main(["models", "ViT_Ti16"]) == 0
    shown = capsys.readouterr().out
    assert "5.7 M parameters" in shown and "1.3 G multiply-adds" in shown
    assert "augreg_imagenet21k_ft_imagenet_384" in shown and "78.22 %" in shown
    assert shown.count("https://") == 3 and shown.count("hf://") == 3


LIST_ALL = """
import resource, sys

if sys.argv[1] != "tensorflow":
    sys.modules["tensorflow"] = None  # importing it raises
from pipelines.cli import main

assert main(["--help"]) == 0
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert main(["models"]) == 0
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # kB
"""


def test_all_models_without_tensorflow_and_without_their_memory():
    process = other_processes.start("-c", LIST_ALL, keras.backend.backend())
    shown = other_processes.finish(process)
    names = [name for name in keras_vit.__all__ if "ViT_" in name or name.startswith("BiT_")]
    titles = [line for line in shown.splitlines() if " M parameters " in line]
    assert sorted(line.split()[0] for line in titles) == sorted(names)
    assert "1844.4 M parameters   483.7 G multiply-adds" in shown.replace("    ", " ")
    assert "  augreg_imagenet21k_ft_imagenet_224 " in shown and "= imagenet" in shown


# Converting.


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A small model of two by three patches as a `.keras` file, and its weights."""
    model = keras_vit.VisionTransformer(
        (16, 24), 8, num_layers=1, num_heads=2, hidden_dim=8, mlp_dim=12, classes=3
    )
    rng = np.random.default_rng(0)
    for variable in model.weights:
        variable.assign(0.3 * rng.normal(size=variable.shape))
    path = tmp_path_factory.mktemp("tiny") / "tiny.keras"
    model.save(path)
    return path, weights_of(model)


def weights_of(model):
    return {v.path: keras.ops.convert_to_numpy(v) for v in model.weights}


def assert_same(model, weights):
    for path, value in weights_of(model).items():
        np.testing.assert_array_equal(value, weights[path], err_msg=path)


def test_convert_to_google_and_back(tiny, tmp_path, capsys):
    path, weights = tiny
    assert cli.main(["convert", str(path), str(tmp_path / "tiny.npz")]) == 0
    assert "embedding/kernel" in np.load(tmp_path / "tiny.npz").files
    assert cli.main(["convert", str(tmp_path / "tiny.npz"), str(tmp_path / "back.keras")]) == 0
    shown = capsys.readouterr().out
    assert f"loaded   {len(weights)}" in shown and "16x24, 3 classes" in shown
    back = keras.saving.load_model(tmp_path / "back.keras")
    assert_same(back, weights)
    assert back.spec.grid == (2, 3)


@pytest.mark.parametrize("format", ["timm", "huggingface"])
def test_convert_to_the_formats_of_pytorch(format, tmp_path, capsys):
    model = keras_vit.VisionTransformer(
        (16, 24), 8, num_layers=1, num_heads=2, hidden_dim=8, mlp_dim=12, classes=3, origin=format
    )
    model.get_layer("head").kernel.assign(np.arange(24.0).reshape(8, 3))
    model.save(tmp_path / "tiny.keras")
    folder = tmp_path / "folder"
    assert cli.main(["convert", str(tmp_path / "tiny.keras"), str(folder)]) == 2
    assert "format='timm'" in capsys.readouterr().err
    line = ["convert", str(tmp_path / "tiny.keras"), str(folder), "--format", format]
    assert cli.main(line) == 0
    assert {p.name for p in folder.iterdir()} == {"model.safetensors", "config.json"}
    line = ["convert", str(folder), str(tmp_path / "large.keras"), "--image-size", "24x40"]
    assert cli.main(line) == 0
    assert "(1, 7, 8) -> (1, 16, 8)" in capsys.readouterr().out
    large = keras.saving.load_model(tmp_path / "large.keras")
    assert large.spec.image_size == (24, 40) and large.spec.origin == format
    np.testing.assert_array_equal(
        weights_of(large)["head/kernel"], weights_of(model)["head/kernel"]
    )


@pytest.mark.parametrize("name", ["out.npz", "out.keras", "out.weights.h5"])
def test_convert_replaces_a_file_where_it_is_asked_to(name, tiny, tmp_path, capsys):
    (tmp_path / name).write_text("older")
    line = ["convert", str(tiny[0]), str(tmp_path / name)]
    assert cli.main(line) == 2
    assert "`--overwrite`" in capsys.readouterr().err
    assert (tmp_path / name).read_text() == "older"
    assert cli.main([*line, "--overwrite"]) == 0
    assert (tmp_path / name).read_bytes()[:5] != b"older"


def test_convert_does_not_replace_the_config_of_other_weights(tiny, tmp_path, capsys):
    (tmp_path / "config.json").write_text("of other weights")
    for destination in (tmp_path, tmp_path / "mine.safetensors"):
        line = ["convert", str(tiny[0]), str(destination), "--format", "timm"]
        assert cli.main(line) == 2
        assert f"Received: '{tmp_path / 'config.json'}'" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_convert_arrays_without_sizes(tmp_path, capsys):
    model = keras_vit.ViT_Ti16(weights=None, input_shape=(32, 48, 3), classes=3)
    model.get_layer("head").kernel.assign(np.ones((192, 3)))
    model.save_weights(tmp_path / "mine.weights.h5")
    line = ["convert", str(tmp_path / "mine.weights.h5"), str(tmp_path / "mine.npz")]
    assert cli.main(line) == 2
    assert "constructor" in capsys.readouterr().err
    assert cli.main([*line, "--model", "ViT_Ti16", "--image-size", "32x48"]) == 0
    back = keras_vit.ViT_Ti16(weights=tmp_path / "mine.npz", classes=3)
    assert_same(back, weights_of(model))


def test_convert_a_grid_that_the_file_does_not_tell(tiny, tmp_path, capsys):
    path, weights = tiny
    assert cli.main(["convert", str(path), str(tmp_path / "tiny.npz")]) == 0
    (tmp_path / "tiny.npz.json").unlink()  # what keras_vit wrote for itself
    line = ["convert", str(tmp_path / "tiny.npz"), str(tmp_path / "back.keras")]
    assert cli.main(line) == 2
    assert "source_grid" in capsys.readouterr().err
    assert cli.main([*line, "--source-grid", "2x3"]) == 0
    assert_same(keras.saving.load_model(tmp_path / "back.keras"), weights)


def test_what_a_format_cannot_express_leaves_nothing(tiny, tmp_path, capsys):
    line = ["convert", str(tiny[0]), str(tmp_path / "out.keras"), "--format", "google"]
    assert cli.main(line) == 2
    assert "ending in .npz" in capsys.readouterr().err
    wide = keras_vit.VisionTransformer(
        (16, 24), 8, num_layers=1, num_heads=2, hidden_dim=8, mlp_dim=12, classes=3, qk_norm=True
    )
    wide.save(tmp_path / "wide.keras")
    assert cli.main(["convert", str(tmp_path / "wide.keras"), str(tmp_path / "wide.npz")]) == 2
    assert "google format cannot express" in capsys.readouterr().err
    assert {p.name for p in tmp_path.iterdir()} == {"wide.keras"}
