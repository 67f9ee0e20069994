"""The formats for serving: how each is written, how it is run, and by which backend."""

import dataclasses
import importlib.util
import warnings
from collections.abc import Callable

import keras

from keras_vit.layers import checks

INPUT, OUTPUT = "images", "probabilities"


@dataclasses.dataclass(frozen=True)
class Format:
    """A format for serving.

    Attributes:
        ending: Of the name of the file, empty for a folder.
        write: Function of a Keras model and a path.
        run: Function of the path and uint8 images `(B, H, W, C)` to float32 `(B, K)`.
        packages: `{backend: packages that write it}` of the backends that can, with any B.
        runtimes: Packages of which any one runs it.
    """

    ending: str
    write: Callable
    run: Callable
    packages: dict
    runtimes: tuple


def checked_format(name):
    """The `Format` of a name, if this backend and what is installed can write it.

    Raises:
        ValueError: if the backend cannot; the message says which can.
        ImportError: if a package is missing.
    """
    checks.one_of(name, "format", tuple(FORMATS))
    backend = keras.backend.backend()
    packages = FORMATS[name].packages
    if backend not in packages:
        raise ValueError(
            f"The format {name!r} cannot be written with a free batch size on the {backend} "
            f"backend; a .keras file is the same on all backends, so export it with "
            f"KERAS_BACKEND={next(iter(packages))}."
        )
    missing = [package for package in packages[backend] if not _installed(package)]
    if missing:
        raise ImportError(
            f"Writing {name!r} on the {backend} backend needs {' and '.join(missing)}. "
            f"Install: pip install {' '.join(missing)}"
        )
    return FORMATS[name]


def can_run(format):
    """Whether a package that runs the format is installed."""
    return any(map(_installed, format.runtimes))


def _installed(package):
    return importlib.util.find_spec(package) is not None


# --- TensorFlow's SavedModel --------------------------------------------------------------------


def _write_saved_model(model, path):
    options = {}
    if keras.backend.backend() == "jax":
        # By itself it would run only on the kind of device that it was written on.
        platforms = {"native_serialization_platforms": ("cpu", "cuda", "tpu")}
        options = {"jax2tf_kwargs": {"native_serialization": True, **platforms}}
    model.export(str(path), format="tf_saved_model", verbose=False, **options)


def _run_saved_model(path, images):
    from pipelines._tensorflow import tf

    served = tf.saved_model.load(str(path))  # owns the variables, so it must stay
    return served.serve(images).numpy()


# --- ONNX ---------------------------------------------------------------------------------------


def _write_onnx(model, path):
    if keras.backend.backend() == "torch":
        _write_onnx_by_torch(model, path)
    else:
        model.export(str(path), format="onnx", verbose=False)


def _write_onnx_by_torch(model, path):
    # Keras 3.15 takes the older exporter of PyTorch where the batch size is free, which fails.
    import torch

    class Served(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, images):
            return self.model(images, training=False)

    images = torch.zeros((2, *model.input_shape[1:]), dtype=torch.uint8)
    batch = torch.export.Dim("batch", min=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about itself
        program = torch.onnx.export(
            Served().eval(),
            (images.to(model.weights[0].value.device),),
            dynamic_shapes={INPUT: {0: batch}},
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamo=True,
            verbose=False,
        )
    program.save(str(path))


def _run_onnx(path, images):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: images})[0]


# --- LiteRT, once TensorFlow Lite ---------------------------------------------------------------


def _write_litert(model, path):
    model.export(str(path), format="litert", verbose=False)


def _run_litert(path, images):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow's says that it will go
        interpreter = _interpreter(str(path))
    (given,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    interpreter.resize_tensor_input(given["index"], images.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(given["index"], images)
    interpreter.invoke()
    return interpreter.get_tensor(result["index"])


def _interpreter(path):
    if _installed("ai_edge_litert"):
        from ai_edge_litert.interpreter import Interpreter

        return Interpreter(path)
    from pipelines._tensorflow import tf

    return tf.lite.Interpreter(path)


FORMATS = {
    "saved_model": Format(
        "",
        _write_saved_model,
        _run_saved_model,
        {"tensorflow": (), "jax": ("tensorflow",)},
        ("tensorflow",),
    ),
    "onnx": Format(
        ".onnx",
        _write_onnx,
        _run_onnx,
        {"tensorflow": ("tf2onnx",), "torch": ("onnx", "onnxscript")},
        ("onnxruntime",),
    ),
    "litert": Format(
        ".tflite",
        _write_litert,
        _run_litert,
        {"tensorflow": ()},
        ("ai_edge_litert", "tensorflow"),
    ),
}
