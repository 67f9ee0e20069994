"""Where images come from; one source a file. `pipelines.sources.grammar` says how to name one."""

_MODULES = {"open_source": "pipelines.sources.grammar"}


def __getattr__(name):
    """Imports TensorFlow when a source is first opened, and not before."""
    if name not in _MODULES:
        raise AttributeError(f"module 'pipelines.sources' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_MODULES[name]), name)
