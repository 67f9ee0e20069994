"""What MODEL means on the command line: a file, or a constructor with its weights."""

import pathlib

import keras_vit
from keras_vit.applications.facts import CONSTRUCTORS
from keras_vit.applications.from_file import model_from_file


def open_model(model, weights=None, image_size=None):
    """Loads or builds a model.

    Args:
        model: Path of a `.keras` file, or of weights whose names and shapes tell every size
            (`.npz`, `.safetensors` or a folder with it); or the name of a constructor, such as
            `"ViT_B16"`.
        weights: With a constructor, what its `weights=` takes; None is `"imagenet"`.
        image_size: `(height, width)`, or None for that of the file or the weights.

    Returns:
        The model.

    Raises:
        ValueError: if it is neither a file nor a constructor.
        FileNotFoundError: if it is a path with nothing there.

    Example:

    >>> model = open_model("ViT_B16", weights="imagenet-384")
    >>> model = open_model("my_run.keras")
    """
    if model in CONSTRUCTORS:
        shape = None if image_size is None else (*image_size, 3)
        weights = "imagenet" if weights is None else weights
        return getattr(keras_vit, model)(weights=weights, input_shape=shape)
    path = pathlib.Path(model)
    if not path.exists():
        raise FileNotFoundError(_neither(model))
    if weights is not None:
        raise ValueError(
            "A file has its own weights; `weights` goes with the name of a constructor. "
            f"Received: model='{model}', weights='{weights}'"
        )
    return model_from_file(path, image_size)[0]


def _neither(model):
    return (
        "The model must be a file or the name of a constructor: "
        f"{', '.join(CONSTRUCTORS)}. Received: '{model}', which is neither"
    )


def add_model_arguments(parser):
    """The options `--model` and `--weights` of a command."""
    parser.add_argument(
        "--model",
        required=True,
        metavar="MODEL",
        help="a .keras file, an .npz or .safetensors file, or a constructor such as ViT_B16",
    )
    add_weights_argument(parser)


def add_weights_argument(parser):
    """The option `--weights` of a command that has MODEL as an argument."""
    parser.add_argument(
        "--weights",
        metavar="NAME",
        help="with a constructor: a file or published weights, see keras-vit models; "
        "default imagenet",
    )


def add_classes_argument(parser):
    """The option `--classes-file` of a command."""
    parser.add_argument(
        "--classes-file",
        metavar="FILE",
        help="names of the classes in the order of the model's outputs, one a line or JSON, for a "
        "model that has none",
    )
