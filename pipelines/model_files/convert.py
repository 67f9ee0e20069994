"""Weights from one format to another."""

import pathlib

import keras_vit
from keras_vit.applications.facts import CONSTRUCTORS
from keras_vit.applications.from_file import model_from_file
from keras_vit.layers import checks
from keras_vit.weights.atomic import atomic_path
from pipelines.model_files.destination import check_free

FORMATS = ("google", "timm", "huggingface", "keras", "h5")
ENDINGS = {".npz": "google", ".keras": "keras", ".weights.h5": "h5"}


def convert(
    source,
    destination,
    format=None,
    *,
    model=None,
    image_size=None,
    source_grid=None,
    overwrite=False,
):
    """Reads weights in any format and writes them in another.

    Args:
        source: A `.npz`, `.safetensors`, `.keras` or `.weights.h5` file, or a folder with
            safetensors.
        destination: File to write, or for `"huggingface"` and `"timm"` also a folder.
        format: `"google"` (`.npz`), `"timm"`, `"huggingface"`, `"keras"` or `"h5"`
            (`.weights.h5`). None goes by the ending of `destination`.
        model: Name of the constructor that the weights are for, where the file does not tell all
            sizes, as `.weights.h5`.
        image_size: `(height, width)` to resample the positions for; None keeps the file's.
        source_grid: `(rows, columns)` of the file's positions, where it does not tell.
        overwrite: Whether files of these names that are there already are replaced.

    Returns:
        `(model, report)`: the model that was written, and the account of the weights, None where
        the source is a model already.

    Raises:
        ValueError: if the source cannot be read, the format cannot express it, or something is
            there already.

    Example:

    >>> convert("ViT-B_16.npz", "vit_b16/", format="huggingface")
    """
    format = format or format_of(destination)
    checks.one_of(format, "format", FORMATS)
    _check_ending(destination, format)
    check_free(_written(pathlib.Path(destination), format), overwrite)
    if model is None:
        built, report = model_from_file(source, image_size, source_grid)
    else:
        built, report = _named(model, source, image_size, source_grid), None
    write(built, destination, format)
    return built, report


def format_of(destination):
    """The format that an ending stands for."""
    for ending, format in ENDINGS.items():
        if str(destination).endswith(ending):
            return format
    raise ValueError(
        f"The ending says the format for {', '.join(ENDINGS)}. For other files and folders say it: "
        f"format='timm' or format='huggingface'. Received: '{destination}'"
    )


def write(model, destination, format):
    """Writes a model's weights, or for `"keras"` the model; whole or not at all."""
    if format not in ("keras", "h5"):
        keras_vit.save_weights(model, destination, format)
        return
    with atomic_path(destination) as beside:
        (model.save if format == "keras" else model.save_weights)(beside)


def _written(destination, format):
    """The files that `write` makes. A `config.json` beside the weights may be of other ones."""
    if format not in ("timm", "huggingface"):
        return [destination]
    if destination.suffix == ".safetensors":
        return [destination, destination.with_name("config.json")]
    return [destination / "model.safetensors", destination / "config.json"]


def _named(name, source, image_size, source_grid):
    checks.one_of(name, "model", CONSTRUCTORS)
    if source_grid is not None:
        raise ValueError(
            "`source_grid` is for a file whose names tell the model: leave `model` out. "
            f"Received: model='{name}', source_grid={source_grid}"
        )
    shape = None if image_size is None else (*image_size, 3)
    return getattr(keras_vit, name)(weights=pathlib.Path(source), input_shape=shape)


def _check_ending(destination, format):
    """That the name does not say another format than the one that is written."""
    said = next((f for ending, f in ENDINGS.items() if str(destination).endswith(ending)), None)
    needs_ending = format in ENDINGS.values()
    if said != format and (said is not None or needs_ending):
        ending = next((e for e, f in ENDINGS.items() if f == format), ".safetensors or none")
        raise ValueError(
            f"The format {format!r} is written to a name ending in {ending}. "
            f"Received: '{destination}'"
        )
