"""Set before any test module is imported: where helpers are found, and on which core tests run."""

import os
import sys
from pathlib import Path

# Lets the tests import the modules that stand beside them, such as `reference_vit`.
sys.path.insert(0, str(Path(__file__).parent))


def _one_core_each():
    """Gives every worker of pytest-xdist a core of its own, which its child processes inherit.

    With two cores each, the thread pools of the backends and of XLA's compiler wait for each other
    in loops: on JAX the same tests took 91 s of processor time in place of 33 s.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})


_one_core_each()


def pytest_collection_modifyitems(items):
    """The longest files first, so that no worker waits for another at the end."""
    items.sort(key=lambda item: "distribution" not in item.path.parts)
