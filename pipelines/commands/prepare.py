"""Writes the images of a source as TFRecord shards, shuffled, for fast reading from anywhere.

Large images are shrunk; the bytes of others stay as they are. A run that was interrupted goes on
where it stopped. Read them again with the source `records:PREFIX`.
"""

from pipelines.commands.check_data import SOURCE_HELP

EXAMPLE = "keras-vit prepare photos/ --out records/train --shards 16"


def add_arguments(parser):
    parser.add_argument("source", metavar="SOURCE", help=SOURCE_HELP)
    parser.add_argument(
        "--out", required=True, metavar="PREFIX", help="files are PREFIX-00000-of-00016.tfrecord"
    )
    parser.add_argument("--shards", type=int, default=16, metavar="N", help="files (default 16)")
    parser.add_argument(
        "--max-side", type=int, default=512, metavar="PIXELS", help="0 shrinks nothing (512)"
    )
    parser.add_argument("--split", choices=("train", "validation"), default="train")
    parser.add_argument("--seed", type=int, default=0, help="of the order")
    parser.add_argument("--on-bad-image", choices=("raise", "skip"), default="raise")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(options):
    from pipelines.collections.prepare import prepare
    from pipelines.sources.grammar import open_source

    train = open_source(options.source, "train")
    source = train
    if options.split == "validation":
        source = open_source(options.source, "validation", train.class_names)
        if source is None:
            raise ValueError(f"{options.source} has no validation images of its own.")
    bad = prepare(
        source,
        options.out.removesuffix("-*").removesuffix(".tfrecord"),
        options.shards,
        max_side=options.max_side or None,
        seed=options.seed,
        on_bad_image=options.on_bad_image,
        progress=not options.quiet,
    )
    for image in bad:
        print(f"skipped {image}")
    print(f"wrote {source.count - len(bad)} images; their source is records:{options.out}")
