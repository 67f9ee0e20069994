"""TensorFlow serves data to every backend, keeps off the others' GPUs, and may be missing."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

from pipelines import _tensorflow

ROOT = Path(__file__).resolve().parents[2]
BACKEND = keras.config.backend()


@pytest.fixture
def hidden(monkeypatch):
    """What is hidden from TensorFlow from here on, as (devices left, kind)."""
    calls = []
    monkeypatch.setattr(
        _tensorflow.tf.config, "set_visible_devices", lambda left, kind: calls.append((left, kind))
    )
    return calls


def test_gpus_are_hidden_unless_tensorflow_trains_on_them(hidden):
    importlib.reload(_tensorflow)
    assert hidden == ([] if BACKEND == "tensorflow" else [([], "GPU")])


@pytest.mark.skipif(BACKEND == "tensorflow", reason="nothing is hidden from the backend itself")
def test_tensorflow_used_too_early_is_a_warning(monkeypatch):
    def refuse(left, kind):
        raise RuntimeError("Visible devices cannot be modified after being initialized")

    monkeypatch.setattr(_tensorflow.tf.config, "set_visible_devices", refuse)
    with pytest.warns(UserWarning, match=f"holds GPU memory that {BACKEND} may need"):
        importlib.reload(_tensorflow)


def test_missing_tensorflow_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ImportError, match=r'pip install "keras3-vit\[tf\]"'):
        importlib.reload(_tensorflow)


def test_fault_inside_tensorflow_is_not_called_missing(monkeypatch, tmp_path):
    (tmp_path / "tensorflow.py").write_text("import a_part_that_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tensorflow")
    with pytest.raises(ModuleNotFoundError, match="a_part_that_is_not_there"):
        importlib.reload(_tensorflow)


@pytest.mark.skipif(BACKEND == "tensorflow", reason="Keras itself imports TensorFlow there")
def test_importing_the_pipelines_does_not_import_tensorflow():
    code = "import sys, pipelines; assert 'tensorflow' not in sys.modules"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
