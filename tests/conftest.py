"""For all tests: what processes share, the order, both products of PyTorch."""

import os
import shutil
import tempfile

import pytest


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


@pytest.fixture(params=[False, True], ids=["", "onednn"])
def onednn(request, monkeypatch):
    """Both products that PyTorch has on a CPU, whichever is the faster on this one."""
    import keras

    if keras.backend.backend() == "torch":
        from keras_vit.layers import torch_forms

        if request.param and not torch_forms.ONEDNN_IS_THERE:
            pytest.skip("this build of PyTorch is without oneDNN")
        monkeypatch.setattr(torch_forms, "ONEDNN_IS_FASTER", request.param)
    elif request.param:
        pytest.skip("oneDNN is called on PyTorch alone")
