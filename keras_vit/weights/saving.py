"""Writing a model's weights in the formats that other libraries read."""

import json
import pathlib

import keras

from keras_vit.layers import checks
from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.image_model import require_spec
from keras_vit.models.spec import ViTSpec
from keras_vit.weights import bit, checkpoint, files, google, huggingface, timm
from keras_vit.weights.atomic import atomic_write

FORMATS = ("google", "timm", "huggingface")


def save_weights(model, path, format="google"):
    """Writes a model's weights in a foreign format.

    `"google"` writes an `.npz` with the names of google-research/vision_transformer, big_vision or
    BiT, and a JSON file beside it with what the names do not tell, such as the grid. `"timm"`
    writes a `.safetensors` file and `"huggingface"` the same or a folder, each with the
    `config.json` that timm or transformers needs to build the model.

    Args:
        model: An `ImageModel`.
        path: An `.npz` file; or a `.safetensors` file, whose `config.json` lies beside it; or a
            folder, which gets `model.safetensors` and `config.json`.
        format: `"google"`, `"timm"` or `"huggingface"`.

    Raises:
        ValueError: if the format cannot express the model, or the path does not suit it.

    Example:

    >>> keras_vit.save_weights(model, "my_vit/", format="huggingface")
    """
    spec = require_spec(model, "save_weights", families=(ViTSpec, BiTSpec))
    checks.one_of(format, "format", FORMATS)
    path = pathlib.Path(path)
    weights = {v.path: keras.ops.convert_to_numpy(v).astype("float32") for v in model.weights}
    facts = spec.to_dict()
    grid = spec.grid if checkpoint.POSITIONS in weights else None
    metadata = checkpoint.record(facts, grid) if spec.family == "vit" else None
    if format == "google":
        _check_suffix(path, ".npz", format)
        writer = bit if spec.family == "bit" else google
        files.write_npz(path, writer.write(weights, facts), metadata)
        return
    if spec.family == "bit":
        raise ValueError(
            f"A BiT ResNet can be written with `format='google'` alone. Received: format={format!r}"
        )
    writer = timm if format == "timm" else huggingface
    arrays, config = writer.write(weights, facts), writer.config(weights, facts)
    if path.suffix != ".safetensors":
        path.mkdir(parents=True, exist_ok=True)
        path = path / files.WHOLE
    files.write_safetensors(path, arrays, metadata)
    with atomic_write(path.with_name("config.json")) as file:
        file.write(json.dumps(config, indent=2).encode())


def _check_suffix(path, suffix, format):
    if path.suffix != suffix:
        raise ValueError(f"`format={format!r}` writes a `{suffix}` file. Received: path='{path}'")
