"""Runs the benchmarks on every backend and prints their tables: what `make bench` does.

    python benchmarks/run.py            # forward, training, latency, imports
    python benchmarks/run.py --full     # all of them with more rounds: hours, on 2 cores

The machine should have nothing else to do. `--only forward` runs one; each is also a program of its
own with more options, `python benchmarks/forward.py --help`.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time

ALL = ["--backends", "tensorflow", "jax", "torch"]
QUICK = {
    "forward": [*ALL, "--rounds", "3", "--seconds", "1"],
    "train_step": [*ALL, "--rounds", "2", "--steps", "2"],
    "latency": [*ALL, "--models", "Ti/16", "--rounds", "3", "--seconds", "0.5"],
    "import_time": [*ALL, "--rounds", "2"],
}
FULL = {
    "forward": ALL,
    "train_step": ALL,
    "latency": ALL,
    "import_time": ALL,
    "folding": ALL,
    "load_weights": [],
    "memory": ALL,
    "scaling": ALL,
    "switches": ALL,
    "pipeline": [],
}
ONE_BACKEND_A_RUN = ("load_weights",)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all of them, with more rounds")
    parser.add_argument("--only", nargs="+", choices=FULL, metavar="NAME", help=", ".join(FULL))
    parser.add_argument("--out", help="folder for the JSON and the Markdown tables")
    options = parser.parse_args(argv)
    failed = []
    for name, arguments in chosen(options.full, options.only).items():
        print(f"== {name}", flush=True)
        start = time.perf_counter()
        if run(name, arguments, options.out):
            failed.append(name)
        print(f"({time.perf_counter() - start:.0f} s)\n", flush=True)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def chosen(full, only=None):
    """Names and arguments; a name that the quick form does not have is taken from the full one."""
    if only is None:
        return FULL if full else QUICK
    return {name: FULL[name] if full else QUICK.get(name, FULL[name]) for name in only}


def run(name, arguments, out):
    """Runs one benchmark; whether it failed."""
    script = pathlib.Path(__file__).with_name(f"{name}.py")
    out = ["--out", out] if out else []
    failed = False
    for backend in ALL[1:] if name in ONE_BACKEND_A_RUN else ("jax",):
        environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, str(script), *arguments, *out]
        failed |= subprocess.run(command, env=environment).returncode != 0
    return failed


if __name__ == "__main__":
    main()
