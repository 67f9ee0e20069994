"""Where the variables and the slots of the optimizer lie after training."""

import math

import keras
import pytest
import worker
from distributed_processes import run

from pipelines import planning
from pipelines.distribution.spec import parse

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="Keras splits variables on JAX only"
)

# The whole shapes: D 64, M 128, two heads of 32, five classes.
WHOLE = {
    "block_1/attention/query/kernel": (64, 2, 32),
    "block_1/attention/output/kernel": (2, 32, 64),
    "block_1/mlp/hidden/kernel": (64, 128),
    "block_1/mlp/hidden/bias": (128,),
    "block_1/mlp/output/kernel": (128, 64),
    "head/kernel": (64, 5),
}
HEADS_AND_MLPS = {
    "block_1/attention/query/kernel": (64, 1, 32),
    "block_1/attention/output/kernel": (1, 32, 64),
    "block_1/mlp/hidden/kernel": (64, 64),
    "block_1/mlp/hidden/bias": (64,),
    "block_1/mlp/output/kernel": (64, 64),
    "head/kernel": (64, 5),
}
FULLY_SHARDED = {
    "block_1/attention/query/kernel": (16, 2, 32),
    "block_1/attention/output/kernel": (2, 32, 16),
    "block_1/mlp/hidden/kernel": (64, 32),
    "block_1/mlp/hidden/bias": (128,),
    "block_1/mlp/output/kernel": (32, 64),
    "head/kernel": (64, 5),
}


@pytest.mark.parametrize("prefix", ["", "slot/"])
@pytest.mark.parametrize(
    ("path", "shapes"),
    [
        (("data", 1, 4), WHOLE),
        (("model:2x2", 1, 4), HEADS_AND_MLPS),
        (("fsdp:4", 1, 4), FULLY_SHARDED),
        (("fsdp:4", 2, 2), FULLY_SHARDED),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_each_device_holds_its_part(path, shapes, prefix):
    for results in run(*path):
        for variable, shape in shapes.items():
            devices, *part = results[f"place/{prefix}{variable}"]
            assert (devices, tuple(part)) == (4, shape), variable


@pytest.mark.parametrize("path", [("model:2x2", 1, 4), ("fsdp:4", 1, 4)], ids=lambda path: path[0])
def test_the_plan_of_memory_is_what_the_devices_hold(path):
    spec = parse(path[0])
    plan = planning.plan(worker.build(), keras.optimizers.SGD(0.1, momentum=0.9), 16, spec, 4)
    (results,) = run(*path)
    places = {name: part[1:] for name, part in results.items() if name.startswith("place/")}
    slots = [part for name, part in places.items() if name.startswith("place/slot/")]
    held = [part for name, part in places.items() if not name.startswith("place/slot/")]
    assert plan.parameters == 4 * sum(math.prod(part) for part in held)
    assert plan.optimizer - 4 * sum(math.prod(part) for part in slots) == 8  # counter and rate
