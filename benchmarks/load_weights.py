"""What it costs to load a Google `.npz` into ViT-B/16, and to build the model for it.

    KERAS_BACKEND=jax python benchmarks/load_weights.py --out benchmarks/results

The measure is NumPy: reading every array of the same file and dropping it. Seconds are of the
processor, all threads of the process together, as wall time would count what else the machine does;
reading and loading take turns in one process. Memory is what loading adds at its most to a built
model, in a process that has done nothing else. The file has 344 MB of random values, unless
`--file` names one; it has been read before, so that the disk has no part in it.
"""

import argparse
import os
import pathlib
import sys
import tempfile
import time

import measure

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
HEADER = ["backend", "read", "load", "load / read", "memory / file", "build", "build and load"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", help="an .npz of ViT-B/16 with 1,000 classes")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", help="folder for load_weights_BACKEND.json and .md")
    parser.add_argument("--serve", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return measure.serve(Contender(options.serve).work)
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or str(pathlib.Path(folder) / "vit_b16.npz")
        if not options.file:
            ask_once(path, "make")
        results = {
            "machine": measure.machine(),
            "backend": os.environ.get("KERAS_BACKEND", "tensorflow"),
            "file_bytes": pathlib.Path(path).stat().st_size,
            "memory_bytes": peak(path),
            "seconds": seconds(path, options.rounds),
        }
    text = measure.table(HEADER, [row(results)])
    print(text)
    if options.out:
        measure.write(options.out, f"load_weights_{results['backend']}", results, text)


def start(path):
    return measure.Worker([sys.executable, __file__, "--serve", path])


def ask_once(path, task):
    worker = start(path)
    answer = worker.ask(task=task)
    worker.close()
    if answer is None:
        raise SystemExit(f"{task}: {worker.failure}")
    return answer


def seconds(path, rounds):
    """Seconds of each task in every round."""
    worker = start(path)
    found = {}
    for tasks, number in ((("read", "load"), rounds), (("build", "build and load"), 3)):
        requests = {task: {"task": task} for task in tasks}
        answers = measure.interleaved(dict.fromkeys(tasks, worker), number, requests)
        found.update({task: [a["seconds"] for a in answers[task]] for task in answers})
    worker.close()
    if worker.failure:
        raise SystemExit(worker.failure)
    return found


def peak(path):
    """Bytes that loading takes above the built model."""
    worker = start(path)
    built = worker.ask(task="forget the peak")
    loaded = worker.ask(task="load")
    worker.close()
    if loaded is None:
        raise SystemExit(worker.failure)
    return round(2**20 * (loaded["peak"] - built["resident"]))


def row(results):
    times = results["seconds"]
    ratios = [load / read for load, read in zip(times["load"], times["read"], strict=True)]
    return [
        results["backend"],
        f"{measure.median(times['read']):.3f} s",
        f"{measure.median(times['load']):.3f} s",
        f"{measure.median(ratios):.2f} ± {measure.spread(ratios):.0%}",
        f"{results['memory_bytes'] / results['file_bytes']:.2f}",
        f"{measure.median(times['build']):.2f} s",
        f"{measure.median(times['build and load']):.2f} s",
    ]


class Contender:
    """What the worker does: everything with one file, on the backend of its environment."""

    def __init__(self, path):
        self.path, self._model = path, None

    @property
    def model(self):
        if self._model is None:
            self._model = self.build(None)
        return self._model

    def work(self, task):
        tasks = {
            "make": self.make,
            "read": self.read,
            "load": self.load,
            "forget the peak": self.forget_the_peak,
            "build": lambda: self.build(None),
            "build and load": lambda: self.build(self.path),
        }
        begin = time.process_time()
        tasks[task]()
        return {"seconds": time.process_time() - begin}

    def build(self, weights):
        import keras_vit

        return keras_vit.ViT_B16(weights=weights)

    def make(self):
        import numpy as np

        import keras_vit

        rng = np.random.default_rng(0)
        for variable in self.model.weights:
            variable.assign(rng.standard_normal(variable.shape, dtype="float32"))
        keras_vit.save_weights(self.model, self.path)

    def read(self):
        import numpy as np

        with np.load(self.path) as file:
            for name in file.files:
                file[name]

    def load(self):
        import keras_vit

        keras_vit.load_weights(self.model, self.path)

    def forget_the_peak(self):
        self.model  # noqa: B018 - built, so that only loading counts
        pathlib.Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    main()
