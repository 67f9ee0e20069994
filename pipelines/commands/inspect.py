"""Draws what the paper looks at inside a model, and writes one page that shows it all.

Filters, similarity of positions; with images attention distance, rollout, the heads of the last
block and the representations. The page opens in a browser without a server.
"""

from pipelines.model_files.open_model import add_weights_argument, open_model
from pipelines.sizes import size

EXAMPLE = "keras-vit inspect ViT_B16 --weights imagenet --images photos/ --out inside"


def add_arguments(parser):
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a .keras file, an .npz or .safetensors file, or a constructor such as ViT_B16",
    )
    add_weights_argument(parser)
    parser.add_argument(
        "--images", nargs="+", default=(), metavar="IMAGE", help="files, folders or patterns"
    )
    parser.add_argument(
        "--image-size",
        type=size,
        metavar="HxW",
        help="look at another size than the model's; sides are multiples of the patch's",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="folder to write to")
    parser.add_argument(
        "--limit", type=int, default=128, metavar="N", help="images at most (default 128)"
    )
    parser.add_argument("--batch-size", type=int, default=8, metavar="N")


def run(options):
    from pipelines.inspection.inspect import inspect

    model = open_model(options.model, options.weights, options.image_size)
    page = inspect(
        model, options.out, options.images, limit=options.limit, batch_size=options.batch_size
    )
    print(f"Open {page} in a browser.")
