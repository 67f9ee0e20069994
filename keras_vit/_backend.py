"""Says in a sentence what is wrong with the choice of Keras's backend, before Keras fails."""

import json
import os
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

# Each name is also that of the package which must be installed.
TRAINING = ("tensorflow", "jax", "torch")
INFERENCE = ("numpy", "openvino")

INSTALL = """
  pip install "keras3-vit[tf]"       # KERAS_BACKEND=tensorflow
  pip install "keras3-vit[jax]"      # KERAS_BACKEND=jax
  pip install "keras3-vit[torch]"    # KERAS_BACKEND=torch"""


def check_backend() -> None:
    """Checks the backend that Keras uses or is about to use. Reads the choice, never makes it.

    Warns if Keras was imported with another backend than `KERAS_BACKEND` names now.

    Raises:
        ValueError: if `KERAS_BACKEND` or Keras's configuration file does not name a backend.
        ImportError: if the package of the chosen backend is not installed.
    """
    variable = os.environ.get("KERAS_BACKEND")
    if variable is not None:
        _check_name(variable, "KERAS_BACKEND", "Correct or unset the environment variable.")
    if "keras" in sys.modules:
        _check_active(variable)
    elif variable is not None:
        _check_installed(variable, f"KERAS_BACKEND is {variable!r}")
    else:
        _check_configured()


def _check_name(name: object, source: str, remedy: str) -> None:
    if name not in TRAINING + INFERENCE:
        raise ValueError(
            f"Keras's backend must be one of {', '.join(map(repr, TRAINING))} "
            f"(or, for inference only, {' or '.join(map(repr, INFERENCE))}). "
            f"Received: {source}={name!r}. {remedy}"
        )


def _check_active(variable: str | None) -> None:
    active = sys.modules["keras"].config.backend()
    if variable is not None and variable != active:
        warnings.warn(
            f"KERAS_BACKEND is {variable!r}, but Keras was imported earlier with {active!r} and "
            "stays with it. Set the variable before keras, keras_vit or tensorflow is imported.",
            # Reported from here, not from the caller: both of our packages check, and Python
            # shows a warning once for each place.
            stacklevel=1,
        )


def _check_configured() -> None:
    path = _keras_home() / "keras.json"
    name = _configured_backend(path)
    if name is None:
        _check_installed("tensorflow", "KERAS_BACKEND is not set, which means 'tensorflow'")
    else:
        _check_name(name, f"{path}: backend", "Correct that file, or set KERAS_BACKEND.")
        _check_installed(name, f"KERAS_BACKEND is not set and {path} says {name!r}")


def _keras_home() -> Path:
    """The folder of Keras's configuration, found in the way Keras finds it."""
    if "KERAS_HOME" in os.environ:
        return Path(os.environ["KERAS_HOME"]).expanduser()
    home = Path("~").expanduser()
    return (home if os.access(home, os.W_OK) else Path("/tmp")) / ".keras"


def _configured_backend(path: Path) -> object:
    try:
        return json.loads(path.read_text()).get("backend")
    except (OSError, ValueError):  # no file, or not JSON: Keras goes on with its defaults
        return None


def _check_installed(name: str, reason: str) -> None:
    if find_spec(name) is not None:
        return
    if others := [backend for backend in TRAINING if find_spec(backend) is not None]:
        remedy = f"Set KERAS_BACKEND to what is ({' or '.join(others)}), or install it"
    else:
        remedy = "Nor is another backend: install one and set KERAS_BACKEND to it"
    raise ImportError(f"{reason}, but {name} is not installed. {remedy}:{INSTALL}")
