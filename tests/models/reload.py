"""Run by `test_saving.py` as a process of its own: loads what lies in a folder and uses it.

Writes `BACKEND.json` there, and for each model `BACKEND.NAME.npy`, its predictions.
"""

import gc
import json
import pathlib
import sys

import keras
import numpy as np


def main(folder):
    facts = {"without_the_library": error_of_loading(folder / "trained.keras")}
    import keras_vit

    gc.freeze()  # Keras collects garbage for each layer that it quantises
    models = {path.stem: keras.saving.load_model(path) for path in folder.glob("*.keras")}
    images = {path.stem: np.load(path) for path in folder.glob("*.npy")}
    models["weights"] = keras_vit.VisionTransformer(**read(folder / "weights.arguments"))
    models["weights"].load_weights(folder / "weights.weights.h5")
    backend = keras.backend.backend()
    for name, model in models.items():
        np.save(folder / f"{backend}.{name}.npy", numpy(model(images[name], training=False)))
    facts["types"] = {name: type(model).__name__ for name, model in models.items()}
    facts["specs"] = {name: model.spec.to_dict() for name, model in models.items()}
    facts["optimizer"] = models["trained"].optimizer.get_config()
    facts["jit_compile"] = [models["trained"].jit_compile, jit_compile_of_a_new_model()]
    facts["loss"] = train_on(models["trained"], images["trained"], read(folder / "labels"))
    np.savez(folder / f"{backend}.trained_on.npz", **values(models["trained"]))
    decay(models["untrained"])
    np.savez(folder / f"{backend}.decayed.npz", **values(models["untrained"]))
    (folder / f"{backend}.json").write_text(json.dumps(facts))


def error_of_loading(path):
    try:
        keras.saving.load_model(path)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def jit_compile_of_a_new_model():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model.jit_compile


def train_on(model, images, labels):
    history = model.fit(images, np.array(labels), epochs=1, verbose=0).history
    return history["loss"][0]


def decay(model):
    """One step whose gradients are all zero."""
    variables = model.trainable_variables
    model.optimizer.apply([keras.ops.zeros(v.shape) for v in variables], variables)


def values(model):
    return {variable.path: numpy(variable) for variable in model.weights}


def numpy(tensor):
    return keras.ops.convert_to_numpy(tensor)


def read(path):
    return json.loads(path.read_text())


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
