"""Lets JAX compile quickly what the tests run once or twice."""

import contextlib

import keras
import pytest

SETTING = "jax_disable_most_optimizations"


@pytest.fixture(autouse=True)
def quick_compilation():
    """For the tests of a folder whose conftest imports it: the compiler optimises little."""
    with quickly():
        yield


@pytest.fixture
def as_users_run_it(quick_compilation):
    """For a test of a compiled program: the compiler works as for any user."""
    with _setting(False):
        yield


def quickly():
    """A context, for fixtures that serve more than one test."""
    return _setting(True)


@contextlib.contextmanager
def _setting(quick):
    if keras.backend.backend() != "jax":
        yield
        return
    import jax

    before = jax.config.read(SETTING)
    jax.config.update(SETTING, quick)
    yield
    jax.config.update(SETTING, before)
