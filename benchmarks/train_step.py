"""How fast a step of training is, and how much memory it takes, beside other libraries.

    python benchmarks/train_step.py --backends tensorflow jax torch --out benchmarks/results

A turn is three steps of AdamW on one batch: a `fit` of Keras, the loop of a library without one.
The memory is of the whole process at its most: libraries, compiling and training.
"""

import argparse

import compare
import macs


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    compare.add_arguments(parser, ["S/16"], batch=16, rounds=5, seconds=0.0)
    parser.add_argument("--steps", type=int, default=3, metavar="N", help="of a turn")
    options = parser.parse_args(argv)
    compare.run(options, "train_step", {"task": "train", "steps": options.steps}, macs.training)


if __name__ == "__main__":
    main()
