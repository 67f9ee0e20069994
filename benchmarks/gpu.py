"""What one large GPU does with B/16 and R50+B/16 in 16 bits, beside timm compiled: ten minutes.

    python benchmarks/gpu.py --out benchmarks/results

Every backend and timm have a process each, all compile at the same time and then take turns. The
images lie on the GPU. Inference is in bfloat16 throughout with the weight standardisation of our
hybrids folded; training is in mixed precision, with AdamW. The goals for B/16 on an H200 are
11,000 images a second in inference and 3,700 in training. `--smoke` runs it all as tiny models on
whatever there is.
"""

import argparse
import dataclasses
import time

import compare
import macs
import measure
import peers

LIMIT = 420  # seconds after which no other task begins
TASKS = {"forward": macs.forward, "train": macs.training}
DTYPES = {"forward": "bfloat16", "train": "mixed_bfloat16"}
HEADER = ["task", "model", "", "images/s", "times timm's", "of the ceiling", "peak MiB"]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["B/16", "R50+B/16"], metavar="MODEL")
    parser.add_argument("--batch", type=int, default=256, metavar="N")
    parser.add_argument("--image-size", type=int, default=224, metavar="N")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a turn")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds until the last begins")
    parser.add_argument("--smoke", action="store_true", help="tiny models, not compiled by torch")
    parser.add_argument("--out", help="folder for gpu.json and gpu.md")
    options = parser.parse_args(argv)
    if options.smoke:
        options.models, options.batch, options.image_size = ["tiny/16", "R50+tiny/16"], 2, 32
        options.rounds, options.seconds = 1, 0.0
    results = run(options)
    if options.out:
        measure.write(options.out, "gpu", results, report(results))


def run(options):
    """Measures one task of one model after another, as long as there is time."""
    end = time.monotonic() + options.limit
    results = {"settings": vars(options), **measure.surroundings(), "groups": [], "no time": []}
    for task, count in TASKS.items():
        for model in options.models:
            if time.monotonic() > end:
                results["no time"].append(f"{model}, {task}")
                continue
            job = peers.Job(model, options.image_size, options.batch, DTYPES[task], resident=True)
            if task == "forward" and job.hybrid:
                job = dataclasses.replace(job, folded=True)
            request = {"task": task, "steps": 1 if options.smoke else 10}
            chosen = contenders(job, options.smoke)
            found = compare.group(chosen, options, request, count(job), together=True)
            results["groups"].append({"task": task, **found})
            print(measure.table(HEADER, rows(results["groups"][-1])), flush=True)
    return results


def contenders(job, smoke):
    """Ours on each backend and timm; what PyTorch runs is compiled, but in a smoke test."""
    compiled = "" if smoke else ", compiled"
    return {
        "keras_vit: jax": (job, "jax"),
        "keras_vit: tensorflow": (job, "tensorflow"),
        f"keras_vit{compiled}: torch": (job, "torch"),
        f"timm{compiled}": (job, "torch"),
    }


def rows(found):
    """A row for each contender; the last one is timm's, with which ours are compared."""
    *_, theirs = found["peers"].values()
    for name, peer in found["peers"].items():
        head = [found["task"], found["model"], name]
        if "failure" in peer:
            yield [*head, f"left out: {peer['failure']}", "", "", ""]
            continue
        speed = found["batch"] / measure.median(peer["seconds"])
        share = 2 * found["macs"] * speed / compare.ceiling(found)
        ratio = ""
        if peer is not theirs and "failure" not in theirs:
            ratio = measure.ratio(theirs["seconds"], peer["seconds"])
        yield [*head, f"{speed:,.0f}", ratio, f"{share:.0%}", f"{peer['peak_mib']:,.0f}"]


def report(results):
    settings = results["settings"]
    lines = [measure.table(HEADER, [row for found in results["groups"] for row in rows(found)])]
    lines += [
        "",
        f"{settings['image_size']} px, batch {settings['batch']}, {settings['rounds']} rounds in "
        "which all took turns. Goals for B/16 on an H200: 11,000 images/s in inference, 3,700 in "
        f"training. {measure.products(results['groups'])}",
    ]
    if results["no time"]:
        lines.append(f"No time was left for: {', '.join(results['no time'])}.")
    return "\n".join([*lines, "", measure.sentence(results)])


if __name__ == "__main__":
    main()
