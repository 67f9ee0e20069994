"""Measures a model on labelled images: top-1, top-5, loss, each class, calibration.

Where an image may be of several classes: mean average precision, and each class's with its F1 at
0.5; the model must end in a sigmoid.

With --reproduce, measures a published checkpoint on ImageNet's validation images and compares its
top-1 with the published one; the exit status is 1 where they differ by more than 0.1 %.
"""

import json
import os
import sys

from pipelines.distribution.command import add_distribute_argument, distributed
from pipelines.model_files.open_model import add_classes_argument, add_weights_argument, open_model

EXAMPLE = "keras-vit evaluate --model runs/fashion_mnist/final.keras --data fashion_mnist"
TOLERANCE = 0.1  # per cent, between a published top-1 and ours
NO_CONFUSION = (
    "No confusion matrix is drawn: where an image may be of several classes there is none."
)


def add_arguments(parser):
    parser.add_argument("--model", metavar="MODEL", help="a file, or a constructor such as ViT_B16")
    add_weights_argument(parser)
    add_classes_argument(parser)
    parser.add_argument("--data", required=True, metavar="SOURCE", help="labelled images")
    parser.add_argument(
        "--split",
        choices=("validation", "train"),
        default="validation",
        help="part of the data; all of them where there is no such part",
    )
    parser.add_argument(
        "--reproduce", nargs=2, metavar=("MODEL", "WEIGHTS"), help="a published checkpoint"
    )
    parser.add_argument("--real", metavar="FILE", help="real.json, reassessed labels of ImageNet")
    parser.add_argument("--confusion", metavar="FILE", help="PNG of the confusion matrix to write")
    parser.add_argument("--batch-size", type=int, default=64, metavar="N")
    add_distribute_argument(parser)
    parser.add_argument("--per-class", action="store_true", help="print a line for each class")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options):
    from pipelines import files
    from pipelines.evaluation import evaluate

    named = options.model is not None
    if named == (options.reproduce is not None) or (options.weights and not named):
        raise ValueError(
            "Name the model by --model, perhaps with --weights, or a published one by --reproduce."
        )
    entry = options.reproduce and evaluate.published(*options.reproduce)
    with distributed(options.distribute) as engine:
        source = evaluate.open_labelled(options.data, options.split)  # before weights are fetched
        _check_comparable(options, source)
        # A path that is wrong fails before the images are computed.
        real = options.real and evaluate.read_real_labels(options.real)
        if options.confusion and engine.is_chief:
            files.make_folder(os.path.dirname(options.confusion) or ".")
        if entry:
            model = evaluate.build_published(*options.reproduce)
        else:
            model = open_model(options.model, options.weights)
        source = evaluate.labelled(model, source, options.classes_file)
        p = evaluate.probabilities(model, source, options.batch_size, engine)
        result = evaluate.measure(p, source.labels, source.class_names)
        if engine.is_chief:
            _report(options, entry, real, source, p, result)
        engine.wait()  # a process that has ended would be missed
    return int(bool(entry) and abs(100 * result.top1 - entry.top1) > TOLERANCE)


def _check_comparable(options, source):
    """Refuses what compares the likeliest class, where an image may be of several."""
    compared = [name for name in ("reproduce", "real") if getattr(options, name)]
    if source.multi_label and compared:
        raise ValueError(
            f"--{compared[0]} is for images of one class each, and those of {source.name} are of "
            "several."
        )


def _report(options, entry, real, source, p, result):
    """Prints and draws what was measured."""
    from pipelines.evaluation import evaluate

    facts = {"data": source.name, **result.to_dict()}
    if real:
        facts["real"], facts["real_images"] = evaluate.real_accuracy(p, real)
    if options.confusion and source.multi_label:
        print(NO_CONFUSION, file=sys.stderr)
    elif options.confusion:
        evaluate.draw_confusion(result, options.confusion)
    if entry:
        facts["published_top1"] = entry.top1 / 100
    print(json.dumps(facts, indent=1) if options.json else _text(options, result, facts))


def _text(options, result, facts):
    lines = [f"{facts['data']}: {result.summary()}"]
    if "real" in facts:
        lines.append(f"ReaL {facts['real']:.2%} of {facts['real_images']:,} images")
    if "published_top1" in facts:
        difference = 100 * (result.top1 - facts["published_top1"])
        lines.append(f"published top-1 {facts['published_top1']:.2%}, ours {difference:+.2f} %")
    if options.per_class or len(result.per_class) <= 10:
        lines.append(result.class_table())
    return "\n".join(lines)
