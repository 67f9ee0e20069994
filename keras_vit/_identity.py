"""Notices another distribution's files among ours.

The package index reserves the names of distributions, not of what they let one import, and both of
our import names are used by others too.
"""

from importlib import metadata
from pathlib import Path

DISTRIBUTION = "keras3-vit"

# Our import name -> the distribution on the index that installs a package of the same name.
RIVALS = {"keras_vit": "keras-vit", "pipelines": "pipelines"}


def check_identity(package: str = "keras_vit") -> None:
    """Raises an ImportError if the rival of `package` was installed into the same folder.

    Each has then overwritten files of the other, and what runs is a mixture. A rival in another
    folder, such as the system's packages under a virtual environment, harms nothing: this code
    runs, so ours was found first. Where the rival's is found first, `pipelines` notices.

    The rival is looked up by its name, which takes a millisecond. To look through everything
    that is installed would take hundreds.
    """
    name = RIVALS[package]
    try:
        rival = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return
    folder = Path(__file__).resolve().parent.parent / package
    if Path(rival.locate_file(package)).resolve() != folder:
        return
    if any(file.parts[0] == package for file in rival.files or ()):
        raise ImportError(
            f"{DISTRIBUTION} and {name} both installed a package `{package}` into {folder}, "
            "so that each has overwritten files of the other. "
            f"Run `pip uninstall {name}`, which removes files of both, "
            f"then `pip install --force-reinstall --no-deps {DISTRIBUTION}`."
        )
