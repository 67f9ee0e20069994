"""Fine-tunes on the 19 tasks of VTAB-1k with 1,000 images each, and prints the paper's table.

Tasks whose data are not on disk are left out and listed with how to get them. Fields of the recipe
`finetune_vtab` are changed as --model.name=ViT_L16.
"""

import pathlib

from pipelines.recipes import resolve
from pipelines.recipes.overrides import split_arguments

EXAMPLE = "keras-vit vtab --weights ViT-B_16.npz --out runs/vtab"
TAKES_OVERRIDES = True


def add_arguments(parser):
    parser.usage = "%(prog)s [options] [--FIELD=VALUE ...]"
    parser.add_argument("--weights", metavar="FILE", help="short for --model.weights=FILE")
    parser.add_argument("--out", default="runs/vtab", metavar="DIR", help="default runs/vtab")
    parser.add_argument("--data-dir", metavar="DIR", help="of TFDS; default its own")
    parser.add_argument("--tasks", nargs="+", metavar="NAME", help="some of the tasks")


def run(options):
    from pipelines.evaluation import vtab

    changes = split_arguments(options.overrides)
    if options.weights is not None:
        changes["model.weights"] = options.weights
    tasks = vtab.TASKS
    if options.tasks:
        known = {task.name: task for task in tasks}
        unknown = [name for name in options.tasks if name not in known]
        if unknown:
            raise ValueError(f"The tasks are {', '.join(known)}. Received: {', '.join(unknown)}")
        tasks = [known[name] for name in options.tasks]
    recipe = resolve("finetune_vtab", changes)
    scores = vtab.vtab(recipe, pathlib.Path(options.out), tasks, options.data_dir)
    print(vtab.table(scores, tasks))
    print(vtab.how_to_get(scores, tasks))
