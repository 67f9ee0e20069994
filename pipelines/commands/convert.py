"""Reads weights in any format and writes them in another, with an account of every weight.

Formats: google (.npz), timm and huggingface (.safetensors or a folder), keras (.keras, the whole
model) and h5 (.weights.h5).
"""

from pipelines.model_files.convert import FORMATS, convert
from pipelines.model_files.destination import add_overwrite_argument
from pipelines.sizes import size

EXAMPLE = "keras-vit convert ViT-B_16.npz vit_b16.keras"


def add_arguments(parser):
    parser.add_argument("source", metavar="SRC", help="a file or folder of weights")
    parser.add_argument("destination", metavar="DST", help="the file or folder to write")
    parser.add_argument("--format", choices=FORMATS, help="of DST, where its ending does not say")
    parser.add_argument(
        "--model", metavar="NAME", help="constructor, where SRC has no sizes (.weights.h5)"
    )
    parser.add_argument(
        "--image-size", type=size, metavar="HxW", help="resample the positions for this size"
    )
    parser.add_argument(
        "--source-grid", type=size, metavar="HxW", help="patches of SRC, where it does not tell"
    )
    add_overwrite_argument(parser)


def run(options):
    model, report = convert(
        options.source,
        options.destination,
        options.format,
        model=options.model,
        image_size=options.image_size,
        source_grid=options.source_grid,
        overwrite=options.overwrite,
    )
    if report is not None:
        print(report)
    height, width = model.spec.image_size
    top = f"{model.spec.classes} classes" if model.spec.include_top else "no top"
    print(f"Wrote {options.destination}: {height}x{width}, {top}, {model.count_params():,} weights")
