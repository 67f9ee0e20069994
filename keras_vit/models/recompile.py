"""Compiling a model anew after it was changed."""


def recompile(model):
    """Compiles a compiled model with its own settings and a fresh optimizer, else does nothing."""
    if model.compiled:
        model.compile_from_config(model.get_compile_config())
