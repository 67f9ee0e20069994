"""A wrong choice of backend is told in a sentence; a right one is left alone."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import keras
import pytest

from keras_vit import _backend

ROOT = Path(__file__).resolve().parent.parent
BACKEND = keras.config.backend()
OTHER = "jax" if BACKEND != "jax" else "torch"

# Set but empty, wrong case, a common name that is not Keras's, stray spaces.
MALFORMED = ["", "JAX", "pytorch", "torch ", " jax", "tf"]


@pytest.fixture
def keras_to_come(tmp_path, monkeypatch):
    """A process that has not imported Keras yet and has its own, empty Keras home."""
    monkeypatch.delitem(sys.modules, "keras")
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    return tmp_path / "keras.json"


def pretend_installed(monkeypatch, *names):
    monkeypatch.setattr(_backend, "find_spec", lambda name: name if name in names else None)


def run(code, **environment):
    """Runs `code` in a fresh process; KERAS_BACKEND is unset there unless given."""
    inherited = {name: text for name, text in os.environ.items() if name != "KERAS_BACKEND"}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.mark.parametrize("value", MALFORMED)
def test_malformed_variable_is_refused_with_the_valid_names(monkeypatch, value):
    monkeypatch.setenv("KERAS_BACKEND", value)
    with pytest.raises(ValueError) as raised:
        _backend.check_backend()
    assert "'tensorflow', 'jax', 'torch'" in str(raised.value)
    assert f"Received: KERAS_BACKEND={value!r}." in str(raised.value)


@pytest.mark.parametrize("name", ["tensorflow", "jax", "torch", "numpy", "openvino"])
def test_every_backend_of_keras_passes_if_it_is_installed(keras_to_come, monkeypatch, name):
    pretend_installed(monkeypatch, name)
    monkeypatch.setenv("KERAS_BACKEND", name)
    _backend.check_backend()
    monkeypatch.delenv("KERAS_BACKEND")
    keras_to_come.write_text(json.dumps({"backend": name}))
    _backend.check_backend()


def test_missing_package_says_what_is_installed_and_how_to_install(keras_to_come, monkeypatch):
    pretend_installed(monkeypatch, "tensorflow", "jax")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    with pytest.raises(ImportError) as raised:
        _backend.check_backend()
    message = str(raised.value)
    assert message.startswith("KERAS_BACKEND is 'torch', but torch is not installed.")
    assert "Set KERAS_BACKEND to what is (tensorflow or jax)" in message
    assert 'pip install "keras3-vit[torch]"' in message


def test_no_backend_at_all_offers_all_three(keras_to_come, monkeypatch):
    pretend_installed(monkeypatch)
    with pytest.raises(ImportError) as raised:
        _backend.check_backend()
    message = str(raised.value)
    assert "KERAS_BACKEND is not set, which means 'tensorflow'" in message
    assert all(f'pip install "keras3-vit[{extra}]"' in message for extra in ("tf", "jax", "torch"))


def test_configuration_file_counts_when_the_variable_is_unset(keras_to_come, monkeypatch):
    pretend_installed(monkeypatch, "tensorflow")
    keras_to_come.write_text('{"backend": "jax"}')
    with pytest.raises(ImportError, match="keras.json says 'jax', but jax is not installed"):
        _backend.check_backend()
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    _backend.check_backend()


def test_configuration_file_with_an_unknown_backend_is_named(keras_to_come):
    keras_to_come.write_text('{"backend": "theano"}')
    with pytest.raises(ValueError, match="'tensorflow', 'jax', 'torch'.*keras.json: backend='thea"):
        _backend.check_backend()


@pytest.mark.parametrize("text", ["{}", "not JSON", '{"floatx": "float32"}'])
def test_configuration_file_without_a_backend_means_the_default(keras_to_come, monkeypatch, text):
    pretend_installed(monkeypatch, "tensorflow")
    keras_to_come.write_text(text)
    _backend.check_backend()


def test_configuration_is_sought_where_keras_seeks_it(monkeypatch, tmp_path):
    monkeypatch.delenv("KERAS_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _backend._keras_home() == tmp_path / ".keras"
    monkeypatch.setenv("HOME", str(tmp_path / "missing"))
    assert _backend._keras_home() == Path("/tmp/.keras")
    monkeypatch.setenv("KERAS_HOME", "~/elsewhere")
    assert _backend._keras_home() == tmp_path / "missing" / "elsewhere"


def test_agreeing_or_unset_variable_passes_in_silence(monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setenv("KERAS_BACKEND", BACKEND)
        _backend.check_backend()
        monkeypatch.delenv("KERAS_BACKEND")
        _backend.check_backend()


@pytest.mark.parametrize("value", MALFORMED)
def test_import_stops_at_a_malformed_variable_before_keras(value):
    done = run("import keras_vit", KERAS_BACKEND=value)
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1].startswith("ValueError: Keras's backend must be")
    assert "import keras\n" not in done.stderr


def test_import_stops_at_a_missing_backend_before_keras():
    block = f"import sys; sys.modules[{BACKEND!r}] = None; import keras_vit"
    done = run(block, KERAS_BACKEND=BACKEND)
    assert done.returncode != 0
    assert (
        f"ImportError: KERAS_BACKEND is {BACKEND!r}, but {BACKEND} is not installed" in done.stderr
    )
    assert "import keras\n" not in done.stderr


def test_variable_set_too_late_warns_once():
    late = f"import keras, os; os.environ['KERAS_BACKEND'] = {OTHER!r}; import keras_vit, pipelines"
    done = run(late, KERAS_BACKEND=BACKEND)
    assert done.returncode == 0, done.stderr
    told = f"KERAS_BACKEND is {OTHER!r}, but Keras was imported earlier with {BACKEND!r}"
    assert done.stderr.count(told) == 1


def test_variable_changed_after_the_library_is_noticed_by_the_pipelines():
    late = f"import keras_vit, os; os.environ['KERAS_BACKEND'] = {OTHER!r}; import pipelines"
    done = run(late, KERAS_BACKEND=BACKEND)
    assert done.returncode == 0, done.stderr
    assert f"Keras was imported earlier with {BACKEND!r}" in done.stderr


def test_import_leaves_the_environment_as_keras_leaves_it(tmp_path):
    (tmp_path / "keras.json").write_text(json.dumps({"backend": BACKEND}))
    compare = (
        "import os, keras; before = dict(os.environ); import keras_vit, pipelines; "
        "assert dict(os.environ) == before; assert 'KERAS_BACKEND' not in os.environ; "
        f"assert keras.config.backend() == {BACKEND!r}"
    )
    done = run(compare, KERAS_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
