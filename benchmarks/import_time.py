"""What `import keras_vit` adds to `import keras`, and how long building a model takes.

    python benchmarks/import_time.py --backends tensorflow jax torch --out benchmarks/results

Every import is of a new process, which has Keras and its backend imported before the clock starts
for keras_vit; seconds are of the processor, and files have been read before. Models are built over
and over in a process that stays, by ours and by KerasHub in turn, with all variables initialised.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import compare
import measure
import peers

IMPORT = """
import json, sys, time
start = time.process_time()
import keras
middle = time.process_time()
import keras_vit
print(json.dumps([middle - start, time.process_time() - middle]))
"""
IMPORT_HEADER = ["backend", "import keras", "import keras_vit adds"]
BUILD_HEADER = ["backend", "model", "keras_vit", "KerasHub", "ours takes"]
NAMES = ["keras_vit", "KerasHub"]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    own = os.environ.get("KERAS_BACKEND", "tensorflow")
    parser.add_argument("--backends", nargs="+", choices=compare.BACKENDS, default=[own])
    parser.add_argument("--model", default="L/16")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--out", help="folder for import_time.json and .md")
    options = parser.parse_args(argv)
    results = {**measure.surroundings(), "imports": {}, "builds": {}}
    for backend in options.backends:
        results["imports"][backend] = imports(backend, options.rounds)
        results["builds"][backend] = builds(backend, peers.Job(options.model), options.rounds)
    text = report(results, options.model)
    print(text)
    if options.out:
        measure.write(options.out, "import_time", results, text)


def imports(backend, rounds):
    """Seconds that Keras and that ours took, in each round but the first."""
    root = str(pathlib.Path(__file__).parents[1])
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": root}
    # What pip installs is compiled already; the round that is not counted compiles the rest.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    found = []
    for _ in range(rounds + 1):
        process = subprocess.run(
            [sys.executable, "-c", IMPORT], env=environment, capture_output=True, text=True
        )
        if process.returncode:
            raise SystemExit(process.stderr)
        found.append(json.loads(process.stdout))
    keras, ours = zip(*found[1:], strict=True)
    return {"keras": keras, "keras_vit": ours}


def builds(backend, job, rounds):
    """Seconds of building the model in each round, or why a library could not."""
    workers = {name: compare.worker(name, dataclasses.asdict(job), backend) for name in NAMES}
    try:
        answers = measure.interleaved(workers, rounds, dict.fromkeys(NAMES, {"task": "build"}))
    finally:
        for worker in workers.values():
            worker.close()
    return {
        name: [answer["seconds"] for answer in answers[name]]
        if name in answers
        else workers[name].failure
        for name in NAMES
    }


def report(results, model):
    imported = [
        [backend, _seconds(found["keras"]), _seconds(found["keras_vit"], 1e3, "ms")]
        for backend, found in results["imports"].items()
    ]
    built = []
    for backend, found in results["builds"].items():
        texts = [v if isinstance(v, str) else _seconds(v) for v in found.values()]
        failed = any(isinstance(v, str) for v in found.values())
        ratio = "" if failed else measure.ratio(found["keras_vit"], found["KerasHub"])
        built.append([backend, model, *texts, ratio])
    return "\n\n".join(
        [
            measure.table(IMPORT_HEADER, imported),
            measure.table(BUILD_HEADER, built),
            measure.sentence(results),
        ]
    )


def _seconds(values, factor=1.0, unit="s"):
    digits = 0 if unit == "ms" else 2
    middle, half = measure.median(values) * factor, (max(values) - min(values)) / 2 * factor
    return f"{middle:.{digits}f} ± {half:.{digits}f} {unit}"


if __name__ == "__main__":
    main()
