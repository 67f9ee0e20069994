"""Models for serving: run by what serves them, and compared with arithmetic outside of them."""

import dataclasses
import importlib.util
import json
import warnings

import keras
import numpy as np
import pytest

import keras_vit
from keras_vit.applications.class_names import class_names
from keras_vit.models.preprocessing import Preprocessing
from pipelines import cli
from pipelines.model_files.export import export, serving_model
from pipelines.model_files.export_formats import FORMATS

BACKEND = keras.backend.backend()
ENDINGS = {"saved_model": "", "onnx": ".onnx", "litert": ".tflite"}
FACTS = Preprocessing(
    mean=(0.4, 0.5, 0.3), std=(0.2, 0.25, 0.1), crop_mode="center", crop_fraction=0.875
)
NAMES = ("ant", "bee", "cat")


def installed(*packages):
    return all(importlib.util.find_spec(package) for package in packages)


def needs(format):
    """Skips where this backend has a refusal instead, or a package is missing."""
    packages = FORMATS[format].packages
    if BACKEND not in packages:
        pytest.skip(f"{BACKEND} cannot write {format}")
    wanted = {*packages[BACKEND], *(("onnxruntime",) if format == "onnx" else ("tensorflow",))}
    if not installed(*wanted):
        pytest.skip(f"needs {', '.join(sorted(wanted))}")


def filled(model, seed=0, **facts):
    rng = np.random.default_rng(seed)
    for variable in model.weights:
        variable.assign(0.3 * rng.normal(size=variable.shape))
    model.spec = dataclasses.replace(model.spec, **facts)
    return model


def tiny(**arguments):
    arguments = {"classes": 3, "classifier_activation": None, **arguments}
    return keras_vit.VisionTransformer(
        (16, 24), 8, num_layers=1, num_heads=2, hidden_dim=8, mlp_dim=12, **arguments
    )


@pytest.fixture(scope="module")
def model():
    return filled(tiny(), class_names=NAMES, preprocessing=FACTS)


def photos(count, shape=(16, 24, 3)):
    return np.random.default_rng(count).integers(0, 256, (count, *shape)).astype("uint8")


def expected(model, images, facts=FACTS):
    """The softmax of the model's logits of pixels that are scaled here."""
    scaled = ((images / 255.0 - np.array(facts.mean)) / np.array(facts.std)).astype("float32")
    logits = keras.ops.convert_to_numpy(model(scaled, training=False)).astype("float64")
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def run(path, format, images):
    """By the runtimes themselves."""
    if format == "saved_model":
        import tensorflow as tf

        served = tf.saved_model.load(str(path))
        result = served.signatures["serving_default"](tf.constant(images))
        return next(iter(result.values())).numpy()
    if format == "onnx":
        import onnxruntime

        return onnxruntime.InferenceSession(str(path)).run(None, {"images": images})[0]
    import tensorflow as tf

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it will move
        interpreter = tf.lite.Interpreter(str(path))
    signature = interpreter.get_input_details()[0]
    assert signature["dtype"] == np.uint8 and signature["shape_signature"][0] == -1
    interpreter.resize_tensor_input(signature["index"], images.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(signature["index"], images)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


@pytest.mark.parametrize("format", ENDINGS)
def test_any_number_of_bytes_to_probabilities(model, format, tmp_path):
    needs(format)
    path = tmp_path / f"served{ENDINGS[format]}"
    assert export(model, path, format) < 1e-5
    for count in (1, 2, 7):
        images = photos(count)
        result = run(path, format, images)
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, expected(model, images), atol=1e-5)
    beside = json.loads((tmp_path / f"{path.name}.json").read_text())
    assert beside["class_names"] == list(NAMES)
    assert beside["image_size"] == [16, 24] and beside["crop_fraction"] == 0.875
    assert class_names(tmp_path / f"{path.name}.json", 3) == NAMES
    assert {p.name for p in tmp_path.iterdir()} == {path.name, f"{path.name}.json"}


@pytest.mark.parametrize(
    "format, backend",
    [("saved_model", "torch"), ("litert", "jax"), ("litert", "torch"), ("onnx", "jax")],
)
def test_what_a_backend_cannot_is_refused(model, format, backend, tmp_path):
    if backend != BACKEND:
        pytest.skip(f"a refusal of {backend}")
    with pytest.raises(ValueError, match="free batch size.*KERAS_BACKEND=tensorflow"):
        export(model, tmp_path / f"served{ENDINGS[format]}", format)
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named(model, tmp_path, monkeypatch):
    if BACKEND == "jax":
        pytest.skip("JAX refuses the format whatever is installed")
    monkeypatch.setattr("pipelines.model_files.export_formats._installed", lambda package: False)
    with pytest.raises(ImportError, match="pip install"):
        export(model, tmp_path / "served.onnx", "onnx")


def test_what_is_inside_without_writing_it(model):
    served = serving_model(model)
    images = photos(4)
    assert served.input_shape == (None, 16, 24, 3)
    assert keras.backend.standardize_dtype(served.inputs[0].dtype) == "uint8"
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(served(images)), expected(model, images), atol=1e-6
    )


def test_scaling_and_softmax_are_not_done_twice():
    inside = filled(
        tiny(include_preprocessing=True, classifier_activation="softmax"), class_names=NAMES
    )
    outside = filled(tiny())
    images = photos(2)
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(serving_model(inside)(images)),
        expected(outside, images, Preprocessing()),
        atol=1e-6,
    )


def test_half_precision_is_served_in_float32():
    half = filled(tiny(dtype="mixed_bfloat16"))
    full = filled(tiny())
    images = photos(2)
    served = serving_model(half)
    assert {layer.compute_dtype for layer in served.layers[2].layers} == {"float32"}
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(served(images)),
        expected(full, images, Preprocessing()),
        atol=1e-6,
    )


def test_standardised_kernels_are_stored_so():
    model = filled(
        keras_vit.BiTResNet((32, 40), num_layers=(1,), width=0.5, classes=3), preprocessing=FACTS
    )
    served, images = serving_model(model), photos(2, (32, 40, 3))
    assert served.layers[2].spec.folded and not model.spec.folded
    scaled = (images / 255.0 - np.array(FACTS.mean)) / np.array(FACTS.std)
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(served(images)),
        keras.ops.convert_to_numpy(model(scaled.astype("float32"), training=False)),
        atol=1e-5,
    )


def test_after_a_change_of_size_nothing_is_resized_inside(tmp_path):
    if BACKEND != "tensorflow":
        pytest.skip("one graph is enough")
    import tensorflow as tf

    model = keras_vit.resize(filled(tiny()), image_size=(24, 32))
    export(model, tmp_path / "served", "saved_model")
    served = tf.saved_model.load(str(tmp_path / "served"))
    graph = served.signatures["serving_default"].graph.as_graph_def()
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    kinds = {node.op for node in nodes}
    assert "MatMul" in kinds or "BatchMatMulV2" in kinds or "Einsum" in kinds
    assert not {kind for kind in kinds if "Resize" in kind}


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"include_top": False}, "include_top=False"),
        ({"classifier_activation": "relu"}, "classifier_activation='relu'"),
    ],
)
def test_what_gives_no_probabilities_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        serving_model(filled(tiny(**arguments)))


def test_layers_before_the_model_are_refused():
    images = keras.Input((16, 24, 3))
    with pytest.raises(ValueError, match="input_tensor"):
        serving_model(filled(tiny(input_tensor=keras.layers.Rescaling(1 / 255)(images))))


def _writable():
    return next(f for f in ENDINGS if BACKEND in FORMATS[f].packages)


def test_what_does_not_agree_is_not_kept(model, tmp_path, monkeypatch):
    format = _writable()
    path = tmp_path / f"served{ENDINGS[format]}"
    wrong = dataclasses.replace(
        FORMATS[format],
        packages={BACKEND: ()},
        write=lambda served, path: path.write_text("a file"),
        run=lambda path, images: np.full((len(images), 3), 1 / 3, "float32"),
        runtimes=("numpy",),
    )
    monkeypatch.setitem(FORMATS, format, wrong)
    path.write_text("older") if ENDINGS[format] else None
    with pytest.raises(ValueError, match="differs from the model by"):
        export(model, path, format, overwrite=True)
    left = {p.name: p.read_text() for p in tmp_path.iterdir()}
    assert left == ({path.name: "older"} if ENDINGS[format] else {})


def test_the_name_must_suit_the_format(model, tmp_path):
    if BACKEND == "tensorflow":
        with pytest.raises(ValueError, match="ending in '.tflite'"):
            export(model, tmp_path / "served.lite", "litert")
    if BACKEND != "torch":
        (tmp_path / "thesis.txt").write_text("all of it")
        with pytest.raises(ValueError, match="folder of something else"):
            export(model, tmp_path, "saved_model")
        with pytest.raises(ValueError, match="folder of something else"):
            export(model, tmp_path, "saved_model", overwrite=True)
        assert (tmp_path / "thesis.txt").read_text() == "all of it"


def test_on_the_command_line(model, tmp_path, capsys):
    if BACKEND == "torch":
        pytest.skip("writes ONNX alone, which needs more packages")
    model.save(tmp_path / "my_run.keras")
    line = ["export", str(tmp_path / "my_run.keras"), "--format", "saved_model"]
    line += ["--out", str(tmp_path / "serving/1")]
    assert cli.main(line) == 0
    assert cli.main(line) == 2
    assert "`--overwrite`" in capsys.readouterr().err
    assert cli.main([*line, "--overwrite"]) == 0
    shown = capsys.readouterr().out
    assert "uint8 (B, 16, 24, 3) to probabilities (B, 3), within" in shown
    images = photos(2)
    result = run(tmp_path / "serving/1", "saved_model", images)
    np.testing.assert_allclose(result, expected(model, images), atol=1e-5)
    assert json.loads((tmp_path / "serving/1.json").read_text())["class_names"] == list(NAMES)
