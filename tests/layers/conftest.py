"""Saves time that is not the tests' own: of imports and of compilers."""

import fresh_process
import keras
import pytest


@pytest.fixture(scope="session", autouse=True)
def process_that_loads(pytestconfig):
    """Starts early the process in which saved layers are loaded: imports take seconds."""
    with pytest.MonkeyPatch.context() as patch:
        if keras.backend.backend() == "jax":
            settings = _keep_what_jax_compiles(pytestconfig)
            for name, value in (settings | QUICK).items():
                patch.setenv(name.upper(), str(value))
        fresh_process.warm_up()


def _keep_what_jax_compiles(pytestconfig):
    # JAX compiles eager calls one operation at a time. What one test, the other process or the
    # last session compiled need not be compiled again.
    if not pytestconfig.pluginmanager.hasplugin("cacheprovider"):
        return {}
    settings = {
        "jax_compilation_cache_dir": str(pytestconfig.cache.mkdir("jax")),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    _configure_jax(settings)
    return settings


QUICK = {"jax_disable_most_optimizations": True}


@pytest.fixture(autouse=True)
def quick_compilation():
    """Layers run once or twice after they are compiled; models are tested as users run them."""
    if keras.backend.backend() != "jax":
        yield
        return
    _configure_jax(QUICK)
    yield
    _configure_jax({"jax_disable_most_optimizations": False})


def _configure_jax(settings):
    import jax

    for name, value in settings.items():
        jax.config.update(name, value)
