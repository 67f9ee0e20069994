"""What `fold_weight_standardization` gains, beside timm's hybrids, which have nothing like it.

    python benchmarks/folding.py --backends tensorflow jax torch --out benchmarks/results

Standardising the kernels costs the same for every batch, whatever its size, so small batches gain
most. timm's model is a PyTorch model whatever the backend; on PyTorch both are also compiled.
"""

import argparse
import dataclasses

import compare
import macs


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    compare.add_arguments(parser, ["R50+B/16"], batch=8, rounds=5, seconds=1.0)
    options = parser.parse_args(argv)
    compare.run(options, "folding", {"task": "forward"}, macs.forward, groups)


def groups(backend, job):
    """Contenders; the folded model comes first, as the one that the others are compared with."""
    folded = dataclasses.replace(job, folded=True)
    found = [{"keras_vit: folded": folded, "keras_vit: as trained": job, "timm": job}]
    if backend == "torch":
        found.append({"keras_vit, compiled: folded": folded, "timm, compiled": job})
    return [{label: (job, backend) for label, job in group.items()} for group in found]


if __name__ == "__main__":
    main()
