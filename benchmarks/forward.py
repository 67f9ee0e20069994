"""How fast images are classified, beside other libraries on the same backend.

    python benchmarks/forward.py --backends tensorflow jax torch --out benchmarks/results

A pass begins with a batch of NumPy images and ends with NumPy logits, as each library documents it
for speed: Keras's `predict_on_batch`, a jitted function of Flax, `inference_mode` on PyTorch, and
there once more by `torch.compile`.
"""

import argparse

import compare
import macs


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    compare.add_arguments(parser, ["B/16"], batch=8, rounds=5, seconds=2.0)
    compare.run(parser.parse_args(argv), "forward", {"task": "forward"}, macs.forward)


if __name__ == "__main__":
    main()
