"""Plots are drawn without a screen and without pyplot; JAX compiles quickly."""

import pytest
from quick_compilation import as_users_run_it, quick_compilation

__all__ = ["as_users_run_it", "quick_compilation"]


@pytest.fixture
def drawing(monkeypatch):
    """For tests that draw: skipped without matplotlib; pyplot must hold no figure afterwards."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(pyplot, "figure", None)  # whoever makes one through pyplot fails
    yield
    assert pyplot.get_fignums() == []
