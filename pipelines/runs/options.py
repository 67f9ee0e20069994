"""The command lines of `pretrain` and `finetune`, which differ in their example only."""

import os
import re

from pipelines.distribution.command import add_distribute_argument, distributed
from pipelines.recipes import NAMES, find, resolve
from pipelines.recipes.overrides import split_arguments


def add_run_arguments(parser):
    """Options of a run; what else is given changes fields of the recipe."""
    parser.usage = "%(prog)s RECIPE [options] [--FIELD=VALUE ...]"
    parser.add_argument("recipe", metavar="RECIPE", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--data", metavar="SOURCE", help="images: short for --data.source=SOURCE")
    parser.add_argument(
        "--weights", metavar="FILE", help="to begin with: short for --model.weights=FILE"
    )
    parser.add_argument(
        "--out", metavar="DIR", help="folder of the run, also gs://...; default runs/RECIPE"
    )
    parser.add_argument("--resume", action="store_true", help="go on with the run in DIR")
    parser.add_argument("--save-every", type=int, metavar="N", help="batches between two states")
    add_distribute_argument(parser)
    parser.add_argument(
        "--sweep",
        metavar="FIELD=A,B",
        help="try values of a field, choose on held-out images, retrain; without values those of "
        "the paper",
    )
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs a value (3)")
    parser.add_argument("--smoke", action="store_true", help="two steps of a tiny model on noise")
    parser.add_argument("--dry-run", action="store_true", help="print the recipe and stop")


def run(options):
    """Runs what the options say."""
    recipe = resolve(options.recipe, _changes(options))
    if options.dry_run:
        print(_readable(options.recipe, recipe))
        return
    out = options.out or os.path.join("runs", options.recipe)
    common = {"name": options.recipe, "save_every": options.save_every}
    if options.smoke:
        recipe = _smoke(recipe, out)
    if options.sweep:
        from pipelines.runs.sweep import sweep

        common["distribute"] = options.distribute
        print(sweep(recipe, out, options.sweep, options.seeds, **common).table())
    else:
        _train(recipe, out, options, common)


def _smoke(recipe, out):
    from pipelines import files
    from pipelines.recipes.smoke import smoke, write_images

    files.make_folder(out)
    noise = files.join(out, "noise.npz")
    with files.written_by_path(noise) as path:  # of every process the same
        write_images(path, recipe.model.channels)
    return smoke(recipe, noise)


def _train(recipe, out, options, common):
    from pipelines.runs.train import train

    with distributed(options.distribute) as engine:
        facts = train(recipe, out, resume=options.resume, distribute=engine, **common)
        chief = engine.is_chief
    if chief:
        best = {name: value for name, value in facts["best"].items() if name != "score"}
        print(f"Best epoch: {best}. Everything is in {out}")


def _changes(options):
    changes = split_arguments(options.overrides)
    if options.data is not None:
        changes["data.source"] = options.data
    if options.weights is not None:
        changes["model.weights"] = options.weights
    return changes


def _readable(name, recipe):
    notes = re.sub(r"^ {4}", "", find(name).__doc__.strip(), flags=re.MULTILINE)
    lines = [f"{field} = {value}" for field, value in _fields(recipe.to_dict())]
    return "\n".join([notes, "", *lines])


def _fields(config, prefix=""):
    for name, value in config.items():
        if isinstance(value, dict) and name in ("model", "data", "optimizer"):
            yield from _fields(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
