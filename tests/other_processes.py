"""Python processes on any backend, for what only shows outside the process of the tests."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import keras

ROOT = pathlib.Path(__file__).parent.parent
BACKEND = keras.backend.backend()
BACKENDS = ("tensorflow", "jax", "torch")

# As little as possible: what is printed by libraries, and what their compilers take time for.
QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    # Idle threads of several processes would spin against each other.
    "OMP_NUM_THREADS": "1",
}


def installed(backend):
    return importlib.util.find_spec(backend) is not None


def start(*arguments, backend=BACKEND):
    """Starts `python *arguments`, which can import this checkout and the helpers of the tests."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, **QUIET, "KERAS_BACKEND": backend, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    """What the process printed, once it has ended well."""
    output, errors = process.communicate(timeout=280)
    assert process.returncode == 0, f"{output}\n{errors}"
    return output
