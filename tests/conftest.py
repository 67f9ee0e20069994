"""Set before any test module is imported: where helpers are, what processes share, the order."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

# Lets the tests import the modules that stand beside them, such as `reference_vit`.
sys.path.insert(0, str(Path(__file__).parent))


def pytest_configure(config):
    """What JAX compiles serves all processes of this run: workers, and programs that tests start.

    Small models are compiled over and over, by far the most of what the tests take on JAX.
    """
    if os.environ.get("KERAS_BACKEND") != "jax" or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return  # a worker, whose folder is that of the run
    folder = tempfile.mkdtemp(prefix="keras_vit_compiled_")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ |= {
        "JAX_COMPILATION_CACHE_DIR": folder,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def pytest_collection_modifyitems(items):
    """The longest files first, so that no worker waits for another at the end."""
    items.sort(key=lambda item: "distribution" not in item.path.parts)
