"""How many processes work together, from the variables that each engine's launcher sets.

There is no launcher of our own: torchrun, Slurm, Kubernetes or a TPU pod starts the processes.
"""

import json
import os

TENSORFLOW, JAX, TORCH = "TF_CONFIG", "KERAS_DISTRIBUTION_NUM_PROCESSES", "WORLD_SIZE"
OWN = {"tensorflow": TENSORFLOW, "jax": JAX, "torch": TORCH}


def num_processes(backend):
    """How many processes this backend's launcher says there are; 1 where it says nothing.

    Raises:
        ValueError: if the variable cannot be read, or if only that of another backend is set, with
            which this one would train a model of its own in every process.
    """
    counts = {TENSORFLOW: _workers(), JAX: max(_number(JAX), _tpu_hosts()), TORCH: _number(TORCH)}
    own = OWN[backend]
    if counts[own] == 1:
        for variable, count in counts.items():
            if count > 1:
                raise ValueError(
                    f"{variable} says that there are {count} processes, but the {backend} backend "
                    f"goes by {own}, so that each would train a model of its own. Start them with "
                    f"{own} set, or choose the backend that {variable} is for. "
                    f"Received: KERAS_BACKEND={backend}"
                )
    return counts[own]


def _workers():
    text = os.environ.get(TENSORFLOW) or "{}"
    try:
        cluster = json.loads(text).get("cluster", {})
        return max(1, len(cluster.get("worker", [])) + len(cluster.get("chief", [])))
    except (ValueError, AttributeError) as error:
        raise ValueError(
            f"{TENSORFLOW} must be a JSON object with 'cluster' and 'task'. Received: {text!r}"
        ) from error


def _number(variable):
    text = os.environ.get(variable) or "1"
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"{variable} must be the number of processes. Received: {text!r}")
    return int(text)


def _tpu_hosts():
    """The hosts of a TPU slice, as its runtime lists them."""
    return len(os.environ.get("TPU_WORKER_HOSTNAMES", "").split(","))
