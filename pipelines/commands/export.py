"""Writes a model for serving: uint8 pixels in, probabilities out, any batch size.

The scaling of pixels and the softmax are inside. Class names, image size and crop lie beside it as
JSON. What was written is run and compared with the model, where a package that runs it is
installed.
"""

from pipelines.model_files.destination import add_overwrite_argument
from pipelines.model_files.export_formats import FORMATS
from pipelines.model_files.open_model import add_weights_argument, open_model
from pipelines.sizes import size

EXAMPLE = "keras-vit export my_run.keras --format saved_model --out serving/1"


def add_arguments(parser):
    parser.add_argument("model", metavar="MODEL", help="a .keras file or a constructor's name")
    add_weights_argument(parser)
    parser.add_argument("--format", choices=tuple(FORMATS), required=True)
    parser.add_argument("--out", required=True, metavar="PATH", help="the folder or file to write")
    parser.add_argument(
        "--image-size", type=size, metavar="HxW", help="resample the positions for this size"
    )
    add_overwrite_argument(parser)


def run(options):
    from pipelines.model_files.export import check_destination, export

    check_destination(options.out, options.format, options.overwrite)  # before weights are fetched
    model = open_model(options.model, options.weights, options.image_size)
    difference = export(model, options.out, options.format, overwrite=options.overwrite)
    spec, checked = model.spec, "not run, as none of its runtimes is installed"
    if difference is not None:
        checked = f"within {difference:.0e} of the model"
    images = f"(B, {spec.image_size[0]}, {spec.image_size[1]}, {spec.channels})"
    print(f"Wrote {options.out}: uint8 {images} to probabilities (B, {spec.classes}), {checked}")
    print(f"Class names, size and crop: {options.out.rstrip('/')}.json")
