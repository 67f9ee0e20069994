"""Run by `test_train.py` as a process of its own: a short run that can be killed.

    python run_in_process.py FOLDER [SECONDS]

trains in FOLDER, or goes on there, and rests so many seconds after every batch.
"""

import pathlib
import sys
import time

from pipelines.recipes import resolve, smoke
from pipelines.recipes.config import replace
from pipelines.runs.callback import RunCallback
from pipelines.runs.train import train


def recipe(images, **changes):
    """Everything that has a state: dropout, stochastic depth, averages, accumulation, Mixup."""
    small = smoke.smoke(resolve("better_plain_vit"), images)
    return replace(
        small,
        model={"regularization": 0.3},
        optimizer={"averaging": 0.8, "accumulation": 2, "warmup": 2},
        steps=6,
        **changes,
    )


def main(folder, seconds=0.0):
    after_batch = RunCallback.on_train_batch_end

    def rest(self, batch, logs=None):
        after_batch(self, batch, logs)
        time.sleep(float(seconds))

    RunCallback.on_train_batch_end = rest
    folder = pathlib.Path(folder)
    small = recipe(folder.parent / "images.npz", few_shot=False)
    train(small, folder, resume=folder.exists(), save_every=1, verbose=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
