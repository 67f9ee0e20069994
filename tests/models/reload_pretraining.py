"""Run by `test_masked_patch_prediction.py` as a process of its own: trains a saved model on.

Reads `pretraining.keras` and `images.npy` in a folder; writes `BACKEND.npz` and `BACKEND.json`.
"""

import json
import pathlib
import sys

import keras
import numpy as np

import keras_vit


def main(folder):
    model = keras.saving.load_model(folder / "pretraining.keras")
    images = np.load(folder / "images.npy")
    facts = {"type": type(model).__name__, "is_ours": isinstance(model, MODEL)}
    facts["evaluated"] = model.evaluate(images, verbose=0)
    facts["steps"] = int(model.optimizer.iterations)
    history = model.fit(images, verbose=0, shuffle=False).history
    facts["trained"] = [history["loss"][0], history["accuracy"][0]]
    values = {v.path: keras.ops.convert_to_numpy(v) for v in model.trainable_variables}
    backend = keras.backend.backend()
    np.savez(folder / f"{backend}.npz", **values)
    (folder / f"{backend}.json").write_text(json.dumps(facts))


MODEL = keras_vit.MaskedPatchPrediction

if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
