"""What `fold_weight_standardization` gains, beside timm's hybrids, which have nothing like it.

    python benchmarks/folding.py --backends tensorflow jax torch --out benchmarks/results

Standardising the kernels costs the same for every batch, whatever its size, so small batches gain
most. timm's model is a PyTorch model whatever the backend; on PyTorch both are also compiled.
"""

import argparse
import dataclasses

import compare
import macs
import measure
import peers

FOLDED = "keras_vit: folded"


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    compare.add_arguments(parser, ["R50+B/16"], batch=8, rounds=5, seconds=1.0)
    options = parser.parse_args(argv)
    results = {"settings": vars(options), **measure.surroundings(), "groups": []}
    for backend in options.backends:
        for model in options.models:
            job = peers.Job(model, options.image_size, options.batch, options.dtype)
            contenders = chosen(backend, job, options.only)
            found = compare.group(
                backend, contenders, options, {"task": "forward"}, macs.forward(job)
            )
            results["groups"].append(found)
    text = compare.report(results)
    print(text)
    if options.out:
        measure.write(options.out, "folding", results, text)


def chosen(backend, job, only=None):
    """Labels and jobs; the folded model comes first."""
    folded = dataclasses.replace(job, folded=True)
    found = {FOLDED: folded, "keras_vit: as trained": job, "timm": job}
    if backend == "torch":
        found |= {"keras_vit, compiled: folded": folded, "timm, compiled": job}
    return {label: job for label, job in found.items() if only is None or label in only}


if __name__ == "__main__":
    main()
