"""All that a run is at one moment, in one file: what `--resume` goes on from.

The file is complete or not there at all. It holds every variable of the model, with those of its
random generators, and of the optimizer, with its step, moments, accumulated gradients and averages;
where the run stands in its data; and what was logged so far.
"""

import json

import keras
import numpy as np

from keras_vit.weights.atomic import atomic_write

FACTS = "facts"


def save_state(path, model, facts):
    """Writes the state of a model in training.

    Args:
        path: Path of the file, `.npz`.
        model: A compiled model.
        facts: A dict that JSON can hold: the position and the log.
    """
    arrays = {name: _array(variable) for name, variable in _variables(model)}
    facts = {**facts, "backend": keras.backend.backend()}
    arrays[FACTS] = np.frombuffer(json.dumps(facts).encode(), "uint8")
    with atomic_write(path) as file:
        np.savez(file, **arrays)


def read_facts(path):
    """The facts that `save_state` was given."""
    with np.load(path, allow_pickle=False) as file:
        return json.loads(file[FACTS].tobytes())


def restore_state(path, model):
    """Sets every variable of a model and its optimizer to what `save_state` wrote.

    Raises:
        ValueError: if the file is of another model, optimizer or backend.
    """
    with np.load(path, allow_pickle=False) as file:
        backend = json.loads(file[FACTS].tobytes())["backend"]
        if backend != keras.backend.backend():
            raise ValueError(
                f"{path} was written on {backend}, and random numbers differ between backends. "
                f"Set KERAS_BACKEND={backend} to go on. Received: {keras.backend.backend()}"
            )
        variables = dict(_variables(model))
        kept = {name for name in file.files if name != FACTS}
        if kept != set(variables):
            raise ValueError(
                f"{path} is the state of another model or optimizer. Only in the file: "
                f"{sorted(kept - set(variables))[:5]}; only in the model: "
                f"{sorted(set(variables) - kept)[:5]}"
            )
        for name, variable in variables.items():
            variable.assign(file[name].astype(_plain_dtype(variable)))


def _variables(model):
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


def _array(variable):
    return np.asarray(keras.ops.convert_to_numpy(variable)).astype(_plain_dtype(variable))


def _plain_dtype(variable):
    # NumPy's files do not know bfloat16, all of whose values float32 has.
    dtype = keras.backend.standardize_dtype(variable.dtype)
    return "float32" if dtype in ("bfloat16", "float16") else dtype
