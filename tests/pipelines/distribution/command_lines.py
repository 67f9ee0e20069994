"""Command lines of `keras-vit` in one process, on two virtual CPUs where TensorFlow trains.

    python command_lines.py OUT '[["evaluate", "--model", ...], ...]'

The exit status of each, and what it printed, are in OUT-RANK.json.
"""

import contextlib
import io
import json
import os
import sys

import keras

from pipelines import cli


def main(out, lines):
    if keras.backend.backend() == "tensorflow":
        import worker

        worker.split_the_cpu(2)
    results = []
    for line in json.loads(lines):
        printed, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
            code = cli.main(line)
        results.append([code, printed.getvalue(), errors.getvalue()])
    with open(f"{out}-{os.environ.get('RANK', 0)}.json", "w") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
