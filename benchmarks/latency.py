"""How soon one image is classified, beside other libraries: `forward` with a batch of one.

python benchmarks/latency.py --backends tensorflow jax torch --out benchmarks/results
"""

import argparse

import compare
import macs


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    compare.add_arguments(parser, ["B/16", "Ti/16"], batch=1, rounds=7, seconds=1.0)
    compare.run(parser.parse_args(argv), "latency", {"task": "forward"}, macs.forward)


if __name__ == "__main__":
    main()
