"""Look inside a Vision Transformer with one photograph: every picture that the paper draws.

    python examples/look_inside.py
    python examples/look_inside.py photo.jpg --model ViT_B16 --weights imagenet --out inside
    python examples/look_inside.py --weights my_vit_ti16.keras

Nothing is trained. Without weights the model is random, and so are its pictures: filters without
structure, positions alike to nothing, heads that look everywhere. Compare them with those of a
trained one. `keras-vit inspect` does the same for many images and writes a page.
"""

import argparse
import pathlib

import numpy as np
from PIL import Image

import keras_vit
from keras_vit import analysis
from pipelines.sizes import size

PHOTO = pathlib.Path(__file__).parent / "photos" / "chelsea.png"


def main(arguments=None):
    """Runs the example; returns the numbers that it prints."""
    options = parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    model = getattr(keras_vit, options.model)(
        weights=options.weights, input_shape=(*options.image_size, 3)
    )
    image = read(options.photo, model)
    pictures = {
        "filters": analysis.plot_patch_filters(model),
        "positions": analysis.plot_position_similarity(model),
        "distance": analysis.plot_attention_distance(model, image),
        "rollout": analysis.plot_attention_rollout(model, image),
        "heads": analysis.plot_attention(model, image, layer=-1),
        "representations": analysis.plot_representations(model, image),
    }
    for name, figure in pictures.items():
        figure.savefig(options.out / f"{name}.png", dpi=150, bbox_inches="tight")
    return report(model, image, options.out)


def read(path, model):
    """The photograph as the model takes it, (H, W, 3)."""
    height, width = model.spec.image_size
    photo = Image.open(path).convert("RGB").resize((width, height), Image.Resampling.BICUBIC)
    return keras_vit.preprocess_input(np.asarray(photo), model)


def report(model, image, folder):
    """Says in numbers what the pictures show, and where they lie."""
    distances = analysis.attention_distance(model, image)  # (layers, heads), in pixels
    rollout = analysis.attention_rollout(model, image)[0]  # (rows, columns)
    row, column = np.unravel_index(rollout.argmax(), rollout.shape)
    numbers = {
        "first_block_looks": [round(float(each), 1) for each in np.sort(distances[0])],
        "last_block_looks": [round(float(each), 1) for each in np.sort(distances[-1])],
        "rollout_peak": (int(row), int(column)),
        "grid": model.spec.grid,
    }
    print(f"How far the heads of the first block look, in pixels: {numbers['first_block_looks']}")
    print(f"and those of the last:                                {numbers['last_block_looks']}")
    print(f"The rollout is largest at patch {numbers['rollout_peak']} of {numbers['grid']}.")
    print(f"The pictures are in {folder.resolve()}.")
    return numbers


def parse(arguments):
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("photo", nargs="?", default=PHOTO, type=pathlib.Path)
    parser.add_argument("--model", default="ViT_Ti16", help="name of a Vision Transformer")
    parser.add_argument("--weights", help="a file, or the name of published weights")
    parser.add_argument(
        "--image-size",
        type=size,
        default=(224, 336),
        metavar="HxW",
        help="multiples of the patch; the default has the shape of the photograph",
    )
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("inside"), help="folder")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
