"""Whether memory grows with the number of calls: predictions in many sizes, models come and gone.

    python benchmarks/memory.py --backends tensorflow jax torch --out benchmarks/results

2,000 calls of `predict` with batches of five sizes, and 30 rounds in which a model is built, fitted
and deleted, each in a process of its own. The same rounds with a model of Keras's own layers show
what the backend itself keeps. Compilations are counted by the backend's own count. How much memory
training takes is in `train_step`.
"""

import argparse
import gc
import os
import sys

import compare
import measure

BATCHES = (1, 3, 8, 17, 40)  # of images; the last one is two batches of Keras's 32
STEPS = 10  # readings
PARTS = {
    "predict": "calls of predict",
    "rounds": "models built, fitted, deleted",
    "plain_rounds": "models of Keras's own layers, likewise",
}
HEADER = ["backend", "", "MiB after a tenth", "at half", "at the end", "growth", "compiled", "then"]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    own = os.environ.get("KERAS_BACKEND", "tensorflow")
    parser.add_argument("--backends", nargs="+", choices=compare.BACKENDS, default=[own])
    parser.add_argument("--calls", type=int, default=2000, metavar="N")
    parser.add_argument("--rounds", type=int, default=30, metavar="N")
    parser.add_argument("--out", help="folder for memory.json and .md")
    parser.add_argument("--serve", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.serve:
        return measure.serve(Contender(options.serve).work)
    results = {**measure.surroundings(), "growth": {}}
    for backend in options.backends:
        counts = dict.fromkeys(PARTS, options.rounds) | {"predict": options.calls}
        results["growth"][backend] = {part: growth(backend, part, n) for part, n in counts.items()}
    text = report(results)
    print(text)
    if options.out:
        measure.write(options.out, "memory", results, text)


def growth(backend, part, count):
    """Memory and compilations after each tenth of `count` calls."""
    environment = {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    worker = measure.Worker([sys.executable, __file__, "--serve", part], environment)
    done, readings = 0, []
    for step in range(1, STEPS + 1):
        calls = count * step // STEPS - done
        done += calls
        answer = worker.ask(calls=calls)
        if answer is None:
            break
        readings.append({"calls": done, **{k: answer[k] for k in ("resident", "compilations")}})
    worker.close()
    return {"failure": worker.failure, "readings": readings}


def report(results):
    rows = []
    for backend, parts in results["growth"].items():
        for part, found in parts.items():
            readings = found["readings"]
            if found["failure"] or not readings:
                rows.append([backend, PARTS[part], f"failed: {found['failure']}", *[""] * 5])
                continue
            first, middle, last = readings[0], readings[len(readings) // 2], readings[-1]
            name = f"{last['calls']:,} {PARTS[part]}"
            memory = [f"{reading['resident']:.0f}" for reading in (first, middle, last)]
            more = f"{last['resident'] / first['resident'] - 1:+.1%}"
            rows.append([backend, name, *memory, more, *_compiled(part, first, last)])
    return f"{measure.table(HEADER, rows)}\n\n{measure.sentence(results)}"


def _compiled(part, first, last):
    """Compilations of the first tenth of the calls, and of all others; new models need new ones."""
    if part != "predict":
        return "", ""
    return str(first["compilations"]), f"{last['compilations'] - first['compilations']:+d}"


class Contender:
    """What a worker does: so many calls more."""

    def __init__(self, part):
        self._part, self._model, self._compilations, self._done = part, None, None, 0

    def work(self, calls):
        if self._compilations is None:
            self._compilations = compilations()
        for _ in range(calls):
            getattr(self, self._part)()
            self._done += 1
        gc.collect()
        return {"compilations": self._compilations(self._model) if self._model else 0}

    def predict(self):
        self._model = self._model or build()
        self._model.predict(images(BATCHES[self._done % len(BATCHES)]), verbose=0)

    def rounds(self):
        fit_once(build())

    def plain_rounds(self):
        fit_once(build_plain())


def fit_once(model):
    """As Keras documents it for many models in one process: with `clear_session`."""
    import keras
    import numpy as np

    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(images(8), np.zeros(8, "int32"), verbose=0)
    del model
    keras.utils.clear_session()


def build():
    import peers  # noqa: F401 - finds keras_vit

    import keras_vit

    return keras_vit.VisionTransformer((48, 64), 16, 2, 2, 32, 64, classes=10)


def build_plain():
    """What `build` makes but position embedding and class token, of Keras's own layers."""
    from keras import Input, Model, layers

    inputs = Input((48, 64, 3))
    tokens = layers.Reshape((12, 32))(layers.Conv2D(32, 16, 16)(inputs))
    for _ in range(2):
        normed = layers.LayerNormalization()(tokens)
        tokens = tokens + layers.MultiHeadAttention(2, 16)(normed, normed)
        hidden = layers.Dense(64, "gelu")(layers.LayerNormalization()(tokens))
        tokens = tokens + layers.Dense(32)(hidden)
    tokens = layers.LayerNormalization()(tokens)
    return Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling1D()(tokens)))


def images(count):
    import numpy as np

    return np.zeros((count, 48, 64, 3), "float32")


def compilations():
    """A function of the model to how often its backend has compiled since."""
    import keras

    backend = keras.backend.backend()
    if backend == "tensorflow":
        return lambda model: model.predict_function.experimental_get_tracing_count()
    if backend == "torch":
        return lambda model: 0  # nothing is compiled
    import jax

    durations = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: durations.append(event) if "backend_compile" in event else None
    )
    return lambda model: len(durations)


if __name__ == "__main__":
    main()
