"""Starts the processes of a distributed run and collects what they leave."""

import functools
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

import keras
import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
BACKEND = keras.backend.backend()
WORKER = ROOT / "tests" / "pipelines" / "distribution" / "worker.py"
TIMEOUT = 280

# What a launcher of the machine that runs the tests may have set.
LAUNCHERS = ("TF_CONFIG", "KERAS_VIT_DISTRIBUTE", "WORLD_SIZE", "RANK", "LOCAL_RANK")


@functools.cache
def run(spec, processes=1, devices=1):
    """The numbers of `worker.py`, once for all tests: a list of {name: array}, by process."""
    ports = free_ports(processes)
    with tempfile.TemporaryDirectory() as folder:
        outs = [pathlib.Path(folder) / f"{rank}.npz" for rank in range(processes)]
        finish(
            [
                start([WORKER, spec, out], rank, processes, devices, ports)
                for rank, out in enumerate(outs)
            ]
        )
        return [dict(np.load(out)) for out in outs]


def start(arguments, rank=0, processes=1, devices=1, ports=(), variables=None):
    """One process, as its backend's launcher starts it, with more environment variables."""
    environment = {name: text for name, text in os.environ.items() if name not in LAUNCHERS}
    environment.update(
        KERAS_BACKEND=BACKEND,
        PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
        OMP_NUM_THREADS="1",
        TF_CPP_MIN_LOG_LEVEL="3",
        JAX_DISABLE_MOST_OPTIMIZATIONS="1",
        JAX_PLATFORMS="cpu",
        XLA_FLAGS=f"--xla_force_host_platform_device_count={devices}",
    )
    environment.update(variables or {})
    if processes > 1:
        environment.update(launcher_variables(rank, processes, ports))
    # Into a file, since a pipe that nobody reads fills up and stops the process.
    output = tempfile.TemporaryFile("w+")
    command = [sys.executable, *map(str, arguments)]
    process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    process.output = output
    return process


def launcher_variables(rank, processes, ports):
    """What the launcher of this backend sets in the process of this rank."""
    hosts = [f"127.0.0.1:{port}" for port in ports]
    if BACKEND == "tensorflow":
        task = {"type": "worker", "index": rank}
        return {"TF_CONFIG": json.dumps({"cluster": {"worker": hosts}, "task": task})}
    if BACKEND == "jax":
        name = "KERAS_DISTRIBUTION_"
        return {
            name + "JOB_ADDRESSES": hosts[0],
            name + "NUM_PROCESSES": str(processes),
            name + "PROCESS_ID": str(rank),
        }
    return {
        "WORLD_SIZE": str(processes),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(ports[0]),
    }


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def finish(processes, code=0, timeout=TIMEOUT):
    """What each printed, once all have ended with this code; if one fails, the others end too."""
    deadline = time.monotonic() + timeout
    try:
        while any(process.poll() is None for process in processes):
            if (
                any(process.returncode not in (None, code) for process in processes)
                or time.monotonic() > deadline
            ):
                break
            time.sleep(0.1)
    finally:
        codes = [process.poll() for process in processes]
        for process in processes:
            process.kill()
            process.wait()
    outputs = [_read(process) for process in processes]
    assert codes == [code] * len(codes), "\n".join([f"exit codes {codes}", *outputs])
    return outputs


def _read(process):
    with process.output as output:
        output.seek(0)
        return output.read()[-4000:]
