"""All that a run is at one moment, in one file: what `--resume` goes on from.

The file is complete or not there at all. It holds every variable of the model, with those of its
random generators, and of the optimizer, with its step, moments, accumulated gradients and averages;
where the run stands in its data; and what was logged so far. Where no single process has the whole
of every variable, `sharded_state.py` has its place.
"""

import contextlib
import json
import tokenize
import zipfile
import zlib

import keras
import numpy as np

from pipelines import files
from pipelines.distribution.engine import Engine

FACTS = "facts"
# What zipfile, and NumPy's reader of headers, raise of a file in which bytes are wrong or missing.
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, KeyError, ValueError)
DAMAGE += (SyntaxError, tokenize.TokenError)


def save_state(path, model, facts, engine=None):
    """Writes the state of a model in training.

    All processes of a run must call it; the chief writes.

    Args:
        path: Path of the file, `.npz`.
        model: A compiled model.
        facts: A dict that JSON can hold: the position and the log.
        engine: What `with pipelines.distribute(...) as d` gave, or None.
    """
    engine = engine or Engine()
    names, variables = zip(*variables_of(model), strict=True)
    values = engine.fetch(variables)
    if not engine.is_chief:
        return
    parts = zip(names, variables, values, strict=True)
    arrays = {name: np.asarray(x).astype(_plain_dtype(variable)) for name, variable, x in parts}
    arrays[FACTS] = np.frombuffer(json.dumps(with_backend(facts)).encode(), "uint8")
    with files.written(path) as file:
        np.savez(file, **arrays)


def read_facts(path):
    """The facts that `save_state` was given."""
    with _opened(path) as arrays:
        return json.loads(_array(arrays, FACTS, path).tobytes())


def restore_state(path, model):
    """Sets every variable of a model and its optimizer to what `save_state` wrote.

    Raises:
        ValueError: if the file is of another model, optimizer or backend, or is damaged.
    """
    with _opened(path) as arrays:
        check_backend(json.loads(_array(arrays, FACTS, path).tobytes()), path)
        variables = dict(variables_of(model))
        check_names({name for name in arrays.files if name != FACTS}, variables, path)
        for name, variable in variables.items():  # one by one: all may be as large as the memory
            variable.assign(_array(arrays, name, path).astype(_plain_dtype(variable)))


@contextlib.contextmanager
def _opened(path):
    """The arrays of a state."""
    with files.open_to_read(path) as file:
        try:
            arrays = np.load(file, allow_pickle=False)
        except DAMAGE as error:
            raise ValueError(_damaged(path)) from error
        with arrays:
            yield arrays


def _array(arrays, name, path):
    try:
        return arrays[name]
    except DAMAGE as error:
        raise ValueError(_damaged(path)) from error


def _damaged(path):
    return (
        f"{path} is damaged, as by a full or failing disk; it is written whole. Put back a copy of "
        "it, or delete it to begin the run anew."
    )


def with_backend(facts):
    """Facts that also say which backend they are of."""
    return {**facts, "backend": keras.backend.backend()}


def check_backend(facts, path):
    """Refuses the state of another backend."""
    backend = facts["backend"]
    if backend != keras.backend.backend():
        raise ValueError(
            f"{path} was written on {backend}, and random numbers differ between backends. "
            f"Set KERAS_BACKEND={backend} to go on. Received: {keras.backend.backend()}"
        )


def check_names(kept, variables, path):
    """Refuses the state of another model: `kept` are names in the file."""
    kept, wanted = set(kept), set(variables)
    if kept != wanted:
        raise ValueError(
            f"{path} is the state of another model or optimizer. Only in the file: "
            f"{sorted(kept - wanted)[:5]}; only in the model: {sorted(wanted - kept)[:5]}"
        )


def variables_of(model):
    """(name, variable) of all that training changes, the metrics left out."""
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    metrics = {id(variable) for variable in model.metrics_variables}
    seen = set()
    for group, variables in (("model", model.variables), ("optimizer", model.optimizer.variables)):
        place = 0
        for variable in variables:
            if id(variable) in seen or id(variable) in metrics:
                continue
            seen.add(id(variable))
            # By number, since the paths of random generators differ from process to process.
            yield f"{group}/{place}", variable
            place += 1


def _plain_dtype(variable):
    # NumPy's files do not know bfloat16, all of whose values float32 has.
    dtype = keras.backend.standardize_dtype(variable.dtype)
    return "float32" if dtype in ("bfloat16", "float16") else dtype
