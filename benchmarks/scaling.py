"""Whether time and memory follow the analytic count: of batch, tokens, depth and width.

    python benchmarks/scaling.py --backends jax --out benchmarks/results --plot docs/scaling.png

Batches of 1 to 64 images, 64 to 576 patches, and the models from Ti to L, each in a process of its
own. Time is set against the multiply-adds of `keras_vit.count_macs`, memory of training beyond that
of the forward pass against the gradients, optimizer and activations of `keras-vit plan`. The matrix
product is measured before and after each point. Training that would need more than `--memory` is
left out.
"""

import argparse
import dataclasses
import math
import os

import compare
import contender
import macs
import measure
import peers

AXES = {
    "batch": [("S/16", 224, batch) for batch in (1, 2, 4, 8, 16, 32, 64)],
    "tokens": [("S/16", 16 * side, 8) for side in (8, 12, 14, 18, 24)],
    "depth and width": [(f"{size}/16", 224, 8) for size in ("Ti", "S", "B", "L")],
}
SMOKE = {"batch": [("tiny/16", 32, 1), ("tiny/16", 32, 4)], "tokens": [("tiny/16", 64, 1)]}
HEADER = [
    "backend", "model", "batch", "patches", "G multiply-adds", "forward s", "of the ceiling",
    "training s", "of the ceiling", "training MiB", "of the count",
]  # fmt: skip
SLOPES_HEADER = ["backend", "axis", "forward", "training", "memory"]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    own = os.environ.get("KERAS_BACKEND", "tensorflow")
    parser.add_argument("--backends", nargs="+", choices=compare.BACKENDS, default=[own])
    parser.add_argument("--axes", nargs="+", choices=AXES, default=list(AXES))
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--memory", type=float, default=6.0, metavar="GIB", help="default 6")
    parser.add_argument("--smoke", action="store_true", help="three points of a tiny model")
    parser.add_argument("--plot", metavar="FILE", help="PNG to write")
    parser.add_argument("--out", help="folder for scaling.json and .md")
    options = parser.parse_args(argv)
    axes = SMOKE if options.smoke else {axis: AXES[axis] for axis in options.axes}
    results = {"settings": vars(options), **measure.surroundings(), "points": []}
    for backend in options.backends:
        measured = {}  # S/16 at 224 and a batch of 8 lies on every axis
        for axis, points in axes.items():
            for model, image_size, batch in points:
                job = peers.Job(model, image_size, batch)
                if job not in measured:
                    measured[job] = point(job, backend, options)
                results["points"].append({"axis": axis, **measured[job]})
    text = report(results)
    print(text)
    if options.out:
        measure.write(options.out, "scaling", results, text)
    if options.plot:
        plot(results["points"], options.plot)


def point(job, backend, options):
    """Seconds and memory of one model, size and batch."""
    product = compare.worker(contender.PRODUCT, {"library": backend}, backend)
    ours = compare.worker("keras_vit", dataclasses.asdict(job), backend)
    try:
        planned = training_bytes(job)
        found = {"backend": backend, **dataclasses.asdict(job), "macs": macs.forward(job)}
        found |= {"planned": planned, "ceiling": [], "forward": [], "training": []}
        ask(ours, task="forward", steps=1)
        for _ in range(options.rounds):
            found["ceiling"].append(ask(product, seconds=0.2)["flops"])
            answer = ask(ours, task="forward")
            found["forward"].append(answer["seconds"])
        before = answer["resident"]
        if planned < options.memory * 2**30:
            ask(ours, task="train", steps=1)
            for _ in range(options.rounds):
                ask(ours, task="forget the peak")
                answer = ask(ours, task="train", steps=1)
                found["training"].append(answer["seconds"])
                found["memory"] = 2**20 * (answer["peak"] - before)
            found["ceiling"].append(ask(product, seconds=0.2)["flops"])
    finally:
        ours.close()
        product.close()
    print(f"{backend} {job.model}, batch {job.batch}, {job.image_size} px", flush=True)
    return found


def ask(worker, **request):
    answer = worker.ask(**request)
    if answer is None:
        raise SystemExit(worker.failure)
    return answer


def training_bytes(job):
    """What a step of training adds to the model's own memory, by `keras-vit plan`'s count."""
    import keras
    from peers import ours

    from pipelines import planning
    from pipelines.distribution.spec import Spec

    with keras.StatelessScope(initialize_variables=False):
        model = ours.build(job)
    optimizer = ours.keras_vit.optimizers.AdamW(1e-3)
    plan = planning.plan(model, optimizer, job.batch, Spec("off"), 1)
    return plan.total() - plan.parameters


def report(results):
    lines = [measure.table(HEADER, [row(point) for point in results["points"]])]
    slopes_rows = []
    for backend in dict.fromkeys(point["backend"] for point in results["points"]):
        for axis in dict.fromkeys(point["axis"] for point in results["points"]):
            chosen = [p for p in results["points"] if p["axis"] == axis and p["backend"] == backend]
            slopes_rows.append([backend, axis, *slopes(chosen)])
    lines += ["", measure.table(SLOPES_HEADER, slopes_rows)]
    lines += [
        "",
        "The second table has exponents: 1 where twice the count takes twice the time or memory.",
        "",
        measure.sentence(results),
    ]
    return "\n".join(lines)


def row(point):
    ceiling = measure.median(point["ceiling"])
    work = 2 * point["macs"] * point["batch"]
    cells = [
        point["backend"],
        point["model"],
        str(point["batch"]),
        str((point["image_size"] // 16) ** 2),
        f"{work / 2e9:.1f}",
    ]
    for task, times in (("forward", 1), ("training", 3)):
        if not point[task]:
            cells += ["too large", ""]
            continue
        seconds = measure.median(point[task])
        cells += [f"{seconds:.3f}", f"{times * work / seconds / ceiling:.0%}"]
    if "memory" not in point:
        return [*cells, "", ""]
    memory = point["memory"]
    return [*cells, f"{memory / 2**20:.0f}", f"{memory / point['planned']:.2f}"]


def slopes(points):
    """The exponents of time and memory in the count, by least squares of the logarithms."""
    work = [p["macs"] * p["batch"] for p in points]
    trained = [p for p in points if p["training"]]
    trained_work = [p["macs"] * p["batch"] for p in trained]
    return [
        _slope(work, [measure.median(p["forward"]) for p in points]),
        _slope(trained_work, [measure.median(p["training"]) for p in trained]),
        _slope([p["planned"] for p in trained], [max(p["memory"], 1) for p in trained]),
    ]


def _slope(counts, values):
    if len(set(counts)) < 2:
        return ""
    x, y = [math.log(n) for n in counts], [math.log(v) for v in values]
    x_mean, y_mean = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - x_mean) * (b - y_mean) for a, b in zip(x, y, strict=True))
    return f"{covariance / sum((a - x_mean) ** 2 for a in x):.2f}"


def plot(points, path):
    """Time against multiply-adds and memory against its count, with lines of slope 1."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    figure = Figure(figsize=(11, 3.6), layout="constrained")
    panels = figure.subplots(1, 3)
    for panel, task, times in zip(panels, ("forward", "training"), (1, 3), strict=False):
        chosen = [p for p in points if p[task]]
        work = [2e-9 * times * p["macs"] * p["batch"] for p in chosen]
        seconds = [measure.median(p[task]) for p in chosen]
        _scatter(panel, chosen, work, seconds)
        best = measure.median([rate for p in chosen for rate in p["ceiling"]]) / 1e9
        ends = [min(work), max(work)]
        panel.plot(ends, [end / best for end in ends], "k--", lw=0.8, label="matrix product")
        panel.set(xlabel="GFLOP counted", ylabel="seconds", title=task)
    trained = [p for p in points if p["training"]]
    counted = [p["planned"] / 2**20 for p in trained]
    _scatter(panels[2], trained, counted, [max(p["memory"], 1) / 2**20 for p in trained])
    ends = [min(counted), max(counted)]
    panels[2].plot(ends, ends, "k--", lw=0.8, label="as counted")
    panels[2].set(xlabel="MiB counted", ylabel="MiB", title="memory of training")
    for panel in panels:
        panel.legend(fontsize=7)
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_minor_formatter(NullFormatter())
    figure.savefig(path, dpi=110)


def _scatter(panel, points, x, y):
    for axis, marker in zip(dict.fromkeys(p["axis"] for p in points), "o^s", strict=False):
        own = [index for index, point in enumerate(points) if point["axis"] == axis]
        panel.loglog([x[i] for i in own], [y[i] for i in own], marker, ms=5, mfc="none", label=axis)


if __name__ == "__main__":
    main()
