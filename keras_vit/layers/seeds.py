"""Seeds of the random layers."""

import random


def resolve_seed(seed):
    """`seed`, or a fresh one where it is None.

    A layer that has an integer seed keeps its random state in a variable on every backend, so that
    a run can be resumed exactly; without one, Keras on PyTorch draws from the global generator.
    Fresh seeds come from Python's `random`, as Keras's own do, so `keras.utils.set_random_seed`
    fixes them.
    """
    return random.randint(1, 1_000_000_000) if seed is None else seed
