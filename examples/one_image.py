"""Walk one photograph from pixels to logits and name each step by the paper's equations 1 to 4.

    python examples/one_image.py
    python examples/one_image.py examples/photos/rocket.jpg --weights my_vit_ti16.keras

Every shape is printed beside its symbol in arXiv 2010.11929, section 3.1. Without weights the
numbers mean nothing; the shapes are those of any ViT-Ti/16.
"""

import argparse
import pathlib

import numpy as np
from keras import ops
from PIL import Image

import keras_vit

PHOTO = pathlib.Path(__file__).parent / "photos" / "chelsea.png"


def main(arguments=None):
    """Runs the example; returns the lines of the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("photo", nargs="?", default=PHOTO, type=pathlib.Path)
    parser.add_argument("--weights", help="a .keras or .weights.h5 file of a ViT-Ti/16")
    options = parser.parse_args(arguments)

    image = np.asarray(Image.open(options.photo).convert("RGB"))
    lines = [("the photograph", "(H, W, C)", image.shape)]
    height, width = (side - side % 16 for side in image.shape[:2])  # whole patches, no distortion
    image = image[:height, :width]
    lines.append(("cut to whole patches", "x: (H, W, C)", image.shape))

    model = keras_vit.ViT_Ti16(
        weights=options.weights,
        input_shape=image.shape,
        include_preprocessing=True,
        classifier_activation=None,
    )
    lines += walk(model, image[None])
    print_table(lines)
    return lines


def walk(model, images):
    """The forward pass, layer by layer: (what, symbol, shape)."""
    spec, steps = model.spec, []

    def step(what, symbol, value):
        steps.append((what, symbol, tuple(value.shape)))
        return value

    x = step("one image as a batch", "(B, H, W, C)", images)
    x = step(
        "pixels scaled to [-1, 1]",
        "x: (B, H, W, C)",
        model.get_layer("pixel_normalization")(x),
    )
    x = step(
        f"{spec.grid[0]}x{spec.grid[1]} patches, embedded",
        "x_p E: (B, N, D)",
        model.get_layer("patch_embedding")(x),
    )
    x = step(
        "class token put before them",
        "[x_class; x_p E]: (B, N+1, D)",
        model.get_layer("class_token")(x),
    )
    x = step(
        "positions added", "z_0 (eq. 1): (B, N+1, D)", model.get_layer("position_embedding")(x)
    )
    for i in range(spec.num_layers):
        block = model.get_layer(f"block_{i}")
        if i == 0:
            step(
                "its attention, by head", "A (app. A): (B, k, N+1, N+1)", block.attention_weights(x)
            )
        x = block(x)
    x = step(f"after {spec.num_layers} blocks", "z_L (eq. 2, 3): (B, N+1, D)", x)
    x = model.get_layer("norm")(x)
    x = step("class token, normalised", "y (eq. 4): (B, D)", model.get_layer("pooling")(x))
    x = step("logits", "(B, K)", model.get_layer("head")(x))
    difference = np.abs(ops.convert_to_numpy(x) - model.predict(images, verbose=0)).max()
    assert difference < 1e-5, "the walk must give what the model gives"
    return steps


def print_table(lines):
    """Prints the steps in three columns."""
    print(f"{'step':32}{'symbol':32}shape")
    for what, symbol, shape in lines:
        print(f"{what:32}{symbol:32}{shape}")


if __name__ == "__main__":
    main()
