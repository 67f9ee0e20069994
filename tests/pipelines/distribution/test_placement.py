"""Where the variables and the slots of the optimizer lie after training."""

import keras
import pytest
from distributed_processes import run

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
