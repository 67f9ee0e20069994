"""Reads and decodes every image of a collection and says what is wrong with it.

Wrong, so that the exit status is 1: images that cannot be decoded, images in both the training and
the validation set, and classes without a training image. Only said: files whose suffix is not that
of their content, images that are converted when they are read (inks, palettes, 16 bits,
transparency, several frames, orientation), and images that come twice.
"""

import pathlib

from pipelines.sizes import size

SOURCE_HELP = (
    "a folder, labels.csv, labels.jsonl, arrays.npz, tfds:NAME, records:PATTERN or fashion_mnist"
)
EXAMPLE = "keras-vit check-data photos/ --histogram sizes.png --preview preview.png"


def add_arguments(parser):
    parser.add_argument("source", metavar="SOURCE", help=SOURCE_HELP)
    parser.add_argument("--list", action="store_true", help="name every file, not the first ten")
    parser.add_argument(
        "--histogram",
        metavar="PNG",
        nargs="?",
        const="sizes.png",
        help="draw the sizes of the images there (sizes.png)",
    )
    parser.add_argument(
        "--preview",
        metavar="PNG",
        nargs="?",
        const="preview.png",
        help="draw augmented training images there (preview.png)",
    )
    parser.add_argument("--augment", default="none", help="of the preview (default none: AugReg's)")
    parser.add_argument(
        "--image-size", type=size, default=(224, 224), metavar="HxW", help="of the preview (224)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the preview")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(options):
    from pipelines.collections.check_data import check_data, plot_sizes

    report = check_data(options.source, progress=not options.quiet)
    for line in lines(report, None if options.list else 10):
        print(line)
    if options.histogram:
        _save(plot_sizes(report), options.histogram)
    if options.preview and report.bad:
        print(f"did not draw {options.preview}: some images cannot be decoded")
    elif options.preview:
        from pipelines.collections.preview import preview

        figure = preview(options.source, options.image_size, options.augment, options.seed)
        _save(figure, options.preview)
    return int(report.failed)


def lines(report, most):
    """What the report says, line by line; of each kind at most so many files."""
    for split in report.splits:
        counts = report.class_counts(split)
        images = len(report.splits[split])
        yield f"{split}: {images} images of {len(counts)} classes"
        yield from (f"  {count:8d}  {name}" for name, count in counts.items())
    if len(report.sizes()):
        low, high = report.sizes().min(0), report.sizes().max(0)
        yield f"height {low[0]} to {high[0]}, width {low[1]} to {high[1]} pixels"
    yield from _section("ERROR: cannot be decoded", report.bad, most, lambda f: f.fault)
    both = [f"{mine}  {theirs}" for mine, theirs in report.in_both_splits]
    yield from _section("ERROR: in training and validation", both, most)
    yield from _section("ERROR: no training image of the class", report.empty_classes, most)
    yield from _section("not what the suffix says", report.mislabelled, most, _content)
    yield from _section("converted when read", report.odd, most, lambda f: ", ".join(f.odd))
    yield from _section("come more than once", [" ".join(g) for g in report.repeated], most)


def _content(facts):
    return f"is {facts.mislabelled}"


def _section(title, found, most, note=None):
    if not found:
        return
    yield f"{title}: {len(found)}"
    for item in found[:most]:
        yield f"  {item}" if note is None else f"  {item.origin}  {note(item)}"
    if most is not None and len(found) > most:
        yield f"  and {len(found) - most} more; --list names them all"


def _save(figure, path):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, format="png")
    print(f"wrote {path}")
