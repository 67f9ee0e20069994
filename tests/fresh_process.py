"""A second Python process, in which what the tests saved is loaded.

What a saved file lacks shows only where none of the objects that wrote it exist. One process
serves a whole test session, since importing a backend takes seconds.
"""

import atexit
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import keras
import numpy as np

ROOT = pathlib.Path(__file__).parent.parent

# Runs in the other process: one request a line, one reply a line. Replies have a descriptor of
# their own, because libraries print to the standard output.
_SERVE = """
import json, os, sys, traceback
replies = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
import keras, keras_vit
import numpy as np
from keras import ops

def serve(path):
    model = keras.models.load_model(path + ".keras")
    with np.load(path + ".inputs.npz") as file:
        outputs = model([file[name] for name in sorted(file.files)])
    np.save(path + ".outputs.npy", ops.convert_to_numpy(ops.cast(outputs, "float32")))
    return {"config": model.get_config()}

for line in sys.stdin:
    try:
        reply = serve(json.loads(line))
    except Exception:
        reply = {"error": traceback.format_exc()}
    print(json.dumps(reply), file=replies)
"""


def load_and_call(model, inputs):
    """Saves a functional model, and loads and calls it in the other process.

    Args:
        model: A functional model with one output.
        inputs: Arrays, one for each input of the model.

    Returns:
        The loaded model's output as a float32 array, and its config.
    """
    return _server().load_and_call(model, inputs)


def warm_up():
    """Starts the other process, which imports what it needs while the caller goes on."""
    _server()


def start(code, **options):
    """A new Python process that runs `code` on this backend and can import this checkout."""
    variables = {"KERAS_BACKEND": keras.backend.backend(), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, env={**os.environ, **variables}, text=True, **options)


class _Server:
    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        self._process = start(_SERVE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1)
        atexit.register(self._stop)

    def load_and_call(self, model, inputs):
        path = str(pathlib.Path(self._folder.name) / "saved")
        model.save(path + ".keras")
        np.savez(path + ".inputs.npz", **{f"{i:03d}": x for i, x in enumerate(inputs)})
        print(json.dumps(path), file=self._process.stdin)
        line = self._process.stdout.readline()
        reply = json.loads(line) if line else {"error": "The process that loads has ended."}
        if "error" in reply:
            raise AssertionError(reply["error"])
        return np.load(path + ".outputs.npy"), reply["config"]

    def _stop(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._folder.cleanup()


@functools.cache
def _server():
    return _Server()
