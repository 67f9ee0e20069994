"""Measures how fast this machine classifies images and trains, on the backend of KERAS_BACKEND.

Forward passes, steps of training and plain matrix products take turns. The share of the ceiling is
the rate of the model's own products over that of the plain ones: what is left to gain on this
machine. --compare sets it beside what an earlier run, perhaps on another backend, wrote by --out.
"""

import json
import pathlib

from keras_vit.weights.atomic import atomic_write
from pipelines.sizes import size

EXAMPLE = "keras-vit bench --model ViT_S16 --batch 8"
TASKS = ("forward", "training")


def add_arguments(parser):
    parser.add_argument(
        "--model", default="ViT_S16", metavar="NAME", help="a constructor; default ViT_S16"
    )
    parser.add_argument("--image-size", type=size, metavar="HxW", help="the model's if not given")
    parser.add_argument("--batch", type=int, default=8, metavar="N", help="images; default 8")
    parser.add_argument("--dtype", default="float32", help="policy; float32 if none")
    parser.add_argument(
        "--seconds", type=float, default=3.0, metavar="S", help="of a turn; default 3"
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="turns; default 5")
    parser.add_argument("--compare", metavar="FILE", help="JSON that an earlier run wrote")
    parser.add_argument("--out", metavar="FILE", help="JSON to write")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options):
    from pipelines import timing

    earlier = _read(options.compare) if options.compare else None  # before what takes minutes
    facts = timing.measure(
        options.model,
        options.image_size,
        options.batch,
        options.dtype,
        options.seconds,
        options.rounds,
    )
    text = json.dumps(facts, indent=1)
    if options.out:
        with atomic_write(options.out) as file:
            file.write(text.encode() + b"\n")
    print(text if options.json else _table(facts, earlier))


def _read(path):
    facts = json.loads(pathlib.Path(path).read_text())
    if not isinstance(facts, dict) or not all(task in facts for task in TASKS):
        raise ValueError(f"The file to compare with must be one of --out. Received: '{path}'")
    return facts


def _table(facts, earlier):
    lines = [_title(facts)]
    if earlier:
        lines.append(f"beside {_title(earlier)}")
    columns = f"{'':<10}{'images/s':>10}{'':>8}{'ms a batch':>12}{'of the ceiling':>16}"
    lines.append(f"{columns}{'first call':>12}" + (f"{'times faster':>14}" if earlier else ""))
    for task in TASKS:
        found = facts[task]
        rate = found["images_per_second"]
        line = (
            f"{task:<10}{rate:>10.2f}{'± ' + format(found['spread'], '.0%'):>8}"
            f"{1e3 * facts['batch'] / rate:>12.1f}{found['share_of_ceiling']:>16.0%}"
            f"{found['first_call']:>10.1f} s"
        )
        if earlier:
            line += f"{rate / earlier[task]['images_per_second']:>14.2f}"
        lines.append(line)
    lines.append(f"ceiling: {facts['ceiling'] / 1e9:,.0f} GFLOP/s of a matrix product")
    memory = [f"{facts['memory'] / 2**30:.2f} GiB of the process"] if facts["memory"] else []
    if facts["device_memory"]:
        memory.append(f"{facts['device_memory'] / 2**30:.2f} GiB of {facts['device']}")
    if memory:
        lines.append(f"memory at most: {', '.join(memory)}")
    return "\n".join(lines)


def _title(facts):
    height, width = facts["image_size"]
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    return (
        f"{facts['model']} at {height}x{width}, {facts['parameters']:,} parameters, batch "
        f"{facts['batch']}, {facts['dtype']}: {versions}, {facts['device']}, {facts['cores']} cores"
    )
