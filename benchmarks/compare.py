"""What `forward`, `latency` and `train_step` have in common: peers of a backend, side by side."""

import dataclasses
import json
import os
import pathlib
import sys

import contender
import measure
import peers

BACKENDS = ("tensorflow", "jax", "torch")
HEADER = [
    "backend", "model", "batch", "", "images/s", "ours is", "of the ceiling", "peak MiB",
    "ours takes",
]  # fmt: skip


def add_arguments(parser, models, batch, rounds, seconds):
    """The options of a comparison."""
    own = os.environ.get("KERAS_BACKEND", "tensorflow")
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=[own])
    parser.add_argument("--models", nargs="+", default=models, metavar="MODEL", help="B/16 ...")
    parser.add_argument("--batch", type=int, default=batch, metavar="N")
    parser.add_argument("--image-size", type=int, default=224, metavar="N")
    parser.add_argument("--dtype", choices=("float32", "mixed_bfloat16"), default="float32")
    parser.add_argument("--rounds", type=int, default=rounds, metavar="N")
    parser.add_argument(
        "--seconds", type=float, default=seconds, help="of a turn, which is one pass at least"
    )
    parser.add_argument("--only", nargs="+", metavar="PEER", help=f"of {', '.join(peers.MODULES)}")
    parser.add_argument("--out", help="folder for the JSON and the Markdown table")


def run(options, name, request, macs, groups=None):
    """Measures, prints the tables and writes them where `--out` says.

    Args:
        options: What `add_arguments` gave.
        name: Of the files.
        request: Dictionary, what a peer is asked for in each turn.
        macs: Function of a job to the multiply-adds of one image in this task.
        groups: Function of a backend and a job to the contenders of each `group`; by default
            the peers of the backend.

    Returns:
        Dictionary, what was written.
    """
    groups = peer_groups if groups is None else groups
    results = {"settings": {**vars(options), **request}, **measure.surroundings(), "groups": []}
    for backend in options.backends:
        for model in options.models:
            job = peers.Job(model, options.image_size, options.batch, options.dtype)
            for contenders in groups(backend, job):
                labels = [n for n in contenders if not options.only or n in options.only]
                if not labels:
                    continue
                chosen = {label: contenders[label] for label in labels}
                results["groups"].append(group(chosen, options, request, macs(job)))
                print(measure.table(HEADER, rows(results["groups"][-1])), flush=True)
    if options.out:
        measure.write(options.out, name, results, report(results))
    return results


def peer_groups(backend, job):
    return [dict.fromkeys(names, (job, backend)) for names in peers.GROUPS[backend]]


def group(contenders, options, request, macs, together=False):
    """Some peers, and the ceilings of the machine, taking turns.

    Args:
        contenders: Dictionary of label to job and backend, which is Keras's where the peer is a
            Keras model. The label is the peer's name, and after a colon what is particular.
        options: With `rounds` and `seconds`.
        request: Dictionary, what each is asked for.
        macs: Multiply-adds of one image.
        together: Whether all compile at the same time.

    Returns:
        Dictionary of what was measured, to be written as JSON.
    """
    workers = {
        label: worker(label.split(":")[0], dataclasses.asdict(job), backend)
        for label, (job, backend) in contenders.items()
    }
    requests = {label: {**request, "seconds": options.seconds} for label in contenders}
    job, backend = next(iter(contenders.values()))
    libraries = {f"{contender.PRODUCT} {name}": name for name in BACKENDS if measure.version(name)}
    dtype = "bfloat16" if "16" in job.dtype else "float32"
    for label, library in libraries.items():
        workers[label] = worker(contender.PRODUCT, {"library": library, "dtype": dtype}, library)
        requests[label] = {"seconds": min(options.seconds, 0.5)}
    try:
        answers = measure.interleaved(workers, options.rounds, requests, together)
    finally:
        for each in workers.values():
            each.close()
    return {
        "backend": backend,
        "model": job.model,
        "batch": job.batch,
        "macs": macs,
        "ceilings": {
            library: [answer["flops"] for answer in answers[label]]
            for label, library in libraries.items()
            if label in answers
        },
        "peers": {label: summary(answers, workers, label) for label in contenders},
    }


def worker(name, job, backend):
    """The process of a peer, with as many threads as this process may use cores."""
    script = str(pathlib.Path(__file__).with_name("contender.py"))
    cores = str(len(os.sched_getaffinity(0)))
    environment = {
        "KERAS_BACKEND": backend,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", cores),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        # Several processes share one accelerator, and what each needs is measured.
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    return measure.Worker([sys.executable, script, name, json.dumps(job)], environment)


def summary(answers, workers, name):
    if name not in answers:
        return {"failure": workers[name].failure}
    return {
        "seconds": [answer["seconds"] for answer in answers[name]],
        "peak_mib": max(answer.get("device_peak", answer["peak"]) for answer in answers[name]),
    }


def ceiling(found):
    """Floating-point operations a second of the fastest library's matrix product."""
    return max((measure.median(rates) for rates in found["ceilings"].values()), default=None)


def rows(found):
    """The rows of a group: first ours, then each peer with how ours compares."""
    ours_name, *_ = found["peers"]
    ours = found["peers"][ours_name]
    for name, peer in found["peers"].items():
        head = [found["backend"], found["model"], str(found["batch"]), name]
        if "failure" in peer:
            yield [*head, f"left out: {peer['failure']}", "", "", "", ""]
            continue
        speed = found["batch"] / measure.median(peer["seconds"])
        flops = 2 * found["macs"] * speed
        share = f"{flops / ceiling(found):.0%}" if ceiling(found) else ""
        ratio = memory = ""
        if peer is not ours and "failure" not in ours:
            ratio = measure.ratio(peer["seconds"], ours["seconds"])
            memory = f"{ours['peak_mib'] / peer['peak_mib']:.2f}"
        yield [*head, f"{speed:.2f}", ratio, share, f"{peer['peak_mib']:.0f}", memory]


def report(results):
    """Everything in one table, with what it was measured on."""
    settings = results["settings"]
    lines = [measure.table(HEADER, [row for found in results["groups"] for row in rows(found)])]
    lines += [
        "",
        f"{settings['dtype']}, {settings['image_size']} px, {settings['rounds']} rounds in which "
        "all took turns: medians; *ours is* the median of the ratios of each round, more than 1 "
        "where ours is faster, ± half their range. Memory is of the process at its most. "
        + measure.products(results["groups"]),
        "",
        measure.sentence(results),
    ]
    return "\n".join(lines)
