"""What `fold_weight_standardization` gains: forward passes with and without it, taking turns.

    KERAS_BACKEND=jax python benchmarks/folding.py --out benchmarks/results

Standardising the kernels costs the same for every batch, whatever its size, so small batches gain
most. Both models are in one process and predict the same images in turn; seconds are wall time, so
the machine should have nothing else to do.
"""

import argparse
import os
import pathlib
import sys
import time

import measure

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
HEADER = ["backend", "model", "batch", "as trained", "folded", "gain"]
KINDS = ("as trained", "folded")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["R50_ViT_B16", "BiT_R50x1"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", help="folder for folding_BACKEND.json and .md")
    parser.add_argument("--serve", nargs=2, metavar=("MODEL", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        name, size = options.serve
        return measure.serve(Contender(name, int(size)).work)
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    results = {"machine": measure.machine(), "backend": backend, "seconds": []}
    for name in options.models:
        results["seconds"] += seconds(name, options)
    text = measure.table(HEADER, [row(backend, found) for found in results["seconds"]])
    print(text)
    if options.out:
        measure.write(options.out, f"folding_{backend}", results, text)


def seconds(name, options):
    """Seconds of a forward pass of both kinds in every round, for each size of batch."""
    command = [sys.executable, __file__, "--serve", name, str(options.image_size)]
    worker = measure.Worker(command)
    found = []
    for batch in options.batches:
        requests = {kind: {"kind": kind, "batch": batch} for kind in KINDS}
        answers = measure.interleaved(dict.fromkeys(KINDS, worker), options.rounds, requests)
        if worker.failure:
            raise SystemExit(f"{name}: {worker.failure}")
        times = {kind: [answer["seconds"] for answer in answers[kind]] for kind in KINDS}
        found.append({"model": name, "batch": batch, **times})
    worker.close()
    return found


def row(backend, found):
    ratios = [
        plain / folded for plain, folded in zip(*(found[kind] for kind in KINDS), strict=True)
    ]
    speeds = [f"{found['batch'] / measure.median(found[kind]):.2f} images/s" for kind in KINDS]
    gain = f"{measure.median(ratios):.2f} ± {measure.spread(ratios):.0%}"
    return [backend, found["model"], str(found["batch"]), *speeds, gain]


class Contender:
    """What the worker does: one model and its folded form, on the backend of its environment."""

    def __init__(self, name, size):
        import keras_vit

        model = getattr(keras_vit, name)(weights=None, input_shape=(size, size, 3))
        folded = keras_vit.fold_weight_standardization(model)
        self.models = dict(zip(KINDS, (model, folded), strict=True))
        self.size = size

    def work(self, kind, batch):
        import numpy as np

        images = np.zeros((batch, self.size, self.size, 3), "float32")
        start = time.perf_counter()
        self.models[kind].predict_on_batch(images)
        return {"seconds": time.perf_counter() - start}


if __name__ == "__main__":
    main()
