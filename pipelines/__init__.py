"""Data, training and evaluation for `keras_vit`: all that touches disk, clock or device mesh.

Importing this package does not import TensorFlow; the modules that read data do.
"""

from pipelines._identity import check_identity

check_identity()  # before anything is looked for in a `keras_vit` that may not be ours

from keras_vit._backend import check_backend

check_backend()  # once more: KERAS_BACKEND may have changed since `keras_vit` was imported


_MODULES = {"distribute": "pipelines.distribution", "load": "pipelines.loading"}


def __getattr__(name):
    """Imports what reads data or finds devices when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'pipelines' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_MODULES[name]), name)
