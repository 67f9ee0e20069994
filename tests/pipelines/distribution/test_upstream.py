"""Each shim has a fault of Keras behind it. Where a test here fails, Keras has mended the fault:
take the shim, or the refusal, out and say so in the changelog.
"""

import functools
import json
import pathlib
import tempfile

import keras
import pytest
from distributed_processes import finish, free_ports, start

BACKEND = keras.backend.backend()
SCRIPT = pathlib.Path(__file__).with_name("upstream.py")

# (what is mended or refused, where, the issue)
ALONE = {
    "tensorflow": {
        "clips_before_the_reduction": ("clip_after_reduction", "tensorflow#33929"),
        "drops_the_same_units_on_every_replica": ("seeds_by_replica", "keras#20611"),
        "fails_with_steps_per_execution": ("_check_options", "keras#19246"),
        "fails_with_gradient_accumulation": ("_check_options", "keras#20582"),
        "fails_with_averages_that_overwrite": ("_check_options", "keras#20582"),
        "fails_with_compilation": ("TensorFlowEngine.check", "keras#20763"),
    },
    "jax": {
        "fails_on_a_ragged_batch": ("padding", "keras#21167"),
        "loses_the_variables_with_it": ("ImageModel, padding", "keras#21019"),
    },
    "torch": {},
}[BACKEND]
TOGETHER = {
    "tensorflow": {
        "fails_to_build_from_a_batch_of_several_workers": (
            "build_from_zeros",
            "keras#20585",
        ),
        "fails_to_reduce_the_logs_of_a_step": ("take_local_results", "keras#20585"),
    },
    "jax": {},
    "torch": {
        "trains_a_model_of_its_own_in_every_process": ("average_gradients", "keras#23316"),
    },
}[BACKEND]


@functools.cache
def found(processes):
    """What the script found, in the first process."""
    ports = free_ports(processes)
    with tempfile.TemporaryDirectory() as folder:
        outs = [pathlib.Path(folder) / f"{rank}.json" for rank in range(processes)]
        finish([start([SCRIPT, out], rank, processes, 2, ports) for rank, out in enumerate(outs)])
        return json.loads(outs[0].read_text())


@pytest.mark.parametrize("fault", ALONE)
def test_keras_still_has_the_fault(fault):
    assert found(1)[fault] is True, f"mended: {ALONE[fault]}"


@pytest.mark.parametrize("fault", TOGETHER)
def test_keras_still_has_the_fault_in_several_processes(fault):
    assert found(2)[fault] is True, f"mended: {TOGETHER[fault]}"
