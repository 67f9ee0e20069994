"""One process of runs of `pipelines.runs.train`, one after the other.

    python run_worker.py FOLDER SPEC/RECIPE/NAME[/PROCESS/POSITION/SIGNAL] ...

Each trains RECIPE, `exact` or `random`, in FOLDER/NAME, or goes on there. The process of that
number gets the signal after the batch of that position: 9 as from the kernel when memory is short,
15 as from a scheduler. What came of it is in FOLDER/NAME-PROCESS.json, the last weights and all
else that is saved in FOLDER/NAME.npz.
"""

import json
import os
import pathlib
import sys

import keras
import numpy as np
import worker

from pipelines.distribution.command import distributed
from pipelines.evaluation.evaluate import evaluate
from pipelines.evaluation.fewshot_sources import few_shot
from pipelines.recipes import resolve, smoke
from pipelines.recipes.config import replace
from pipelines.runs.callback import RunCallback
from pipelines.runs.state import variables_of
from pipelines.runs.train import train

BATCH, BATCHES = 8, 6  # of 24 images, three batches an epoch
SAVE_EVERY = 2
SIZES = {"patch_size": 8, "num_layers": 2, "num_heads": 2, "hidden_dim": 64, "mlp_dim": 128}


def recipes(images):
    """`exact` is the same on any devices; `random` has everything that has a state."""
    small = smoke.smoke(resolve("better_plain_vit"), images)
    model = {"image_size": (16, 24), "arguments": {**small.model.arguments, **SIZES}}
    sgd = {"name": "sgd", "learning_rate": 0.1, "weight_decay": 0.0, "clip_norm": 0.5}
    small = replace(small, model=model, steps=BATCHES, batch_size=BATCH)
    return {
        "exact": replace(small, optimizer=sgd, data={"augment": "none"}),
        "random": replace(
            small,
            model={"regularization": 0.3},
            optimizer={"averaging": 0.8, "warmup": 2},
            few_shot=False,
        ),
    }


def main(folder, *runs):
    folder = pathlib.Path(folder)
    if keras.backend.backend() == "tensorflow" and "TF_CONFIG" not in os.environ:
        worker.split_the_cpu(2)
    for run in runs:
        spec, recipe, name, *sent = run.split("/")
        with distributed(spec) as engine:
            recipe_of_run = recipes(folder / "images.npz")[recipe]
            results = trained(folder / name, recipe_of_run, engine, [int(x) for x in sent])
            if recipe == "exact":
                results.update(evaluated(folder, name, engine))
            (folder / f"{name}-{engine.host}.json").write_text(json.dumps(results))
        keras.backend.clear_session()


def trained(folder, recipe, engine, sent):
    """What `train` says, and which batches this process trained."""
    steps, models = [], []
    after_batch = RunCallback.on_train_batch_end

    def note(self, batch, logs=None):
        models[:] = [self.model]
        steps.append(self.position + 1)
        if [engine.host, self.position + 1] == sent[:2]:
            if sent[2] == 9:
                after_batch(self, batch, logs)
            os.kill(os.getpid(), sent[2])
        after_batch(self, batch, logs)

    RunCallback.on_train_batch_end = note
    try:
        options = {"resume": True, "save_every": SAVE_EVERY, "verbose": 0}
        facts = train(recipe, folder, distribute=engine, **options)
    finally:
        RunCallback.on_train_batch_end = after_batch
    names, variables = zip(*variables_of(models[0]), strict=True)
    values = engine.fetch(variables)
    if engine.is_chief:
        np.savez(f"{folder}.npz", **dict(zip(names, values, strict=True)))
    kept = {name: facts[name] for name in ("history", "best", "position")}
    return {"steps": steps, **kept}


def evaluated(folder, name, engine):
    """What `evaluate` and `few_shot` say of the model that one device has trained."""
    model = keras.saving.load_model(folder / "exact-off" / "last.keras")
    images, options = str(folder / "images.npz"), {"batch_size": BATCH, "distribute": engine}
    result = evaluate(model, images, **options)
    cache = folder / f"{name}-features"
    shots = few_shot(model, images, shots=(1, 3), cache=cache, **options)
    # Once more, from the files.
    assert few_shot(model, images, shots=(1, 3), cache=cache, **options) == shots
    confusion = result.confusion.tolist()
    return {"evaluation": result.to_dict(), "confusion": confusion, "shots": list(shots.values())}


if __name__ == "__main__":
    main(*sys.argv[1:])
