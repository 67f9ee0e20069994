"""Random layers that draw other numbers on every replica.

All replicas hold one state of each `SeedGenerator`, so that dropout would drop the same units of
every share of a batch (https://github.com/keras-team/keras/issues/20611). The number of the replica
is added to what is drawn; the state stays equal, as resuming needs.
"""

import contextlib

import keras

STRIDE = 1_000_003  # prime, and far from the steps that a state makes


@contextlib.contextmanager
def seeds_by_replica(replica):
    """A context in which `SeedGenerator.next` adds `replica()` times a stride to the seed."""
    original = keras.random.SeedGenerator.next

    def next_seed(self, ordered=True):
        seed = original(self, ordered)
        shift = keras.ops.stack([replica() * STRIDE, 0])
        return seed + keras.ops.cast(shift, seed.dtype)

    keras.random.SeedGenerator.next = next_seed
    try:
        yield
    finally:
        keras.random.SeedGenerator.next = original


def check_seeds(model):
    """Refuses random layers that drew their seed by chance: no other process or resumed run has it.

    Raises:
        ValueError: naming them.
    """
    unseeded = [layer.name for layer in model._flatten_layers() if _drew_its_seed(layer)]
    if unseeded:
        raise ValueError(
            "Random layers need a seed, which makes them draw the same numbers in a run that is "
            f"resumed. Received: layers {unseeded} without one. Give each `seed=` an integer."
        )


def _drew_its_seed(layer):
    generator = getattr(layer, "seed_generator", None)
    if not isinstance(generator, keras.random.SeedGenerator):
        return False
    return generator.get_config()["seed"] is None
