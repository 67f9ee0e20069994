"""Plots are drawn without a screen; JAX compiles quickly."""

import pytest
from quick_compilation import as_users_run_it, quick_compilation

__all__ = ["as_users_run_it", "quick_compilation"]


@pytest.fixture
def agg(monkeypatch):
    """matplotlib's pyplot, drawing into memory; without matplotlib the test is skipped."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot
