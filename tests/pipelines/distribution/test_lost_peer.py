"""A process that outlives another ends soon, and says why."""

import signal
import time

import keras
from distributed_processes import ROOT, free_ports, start

BACKEND = keras.backend.backend()

SCRIPT = ROOT / "tests" / "pipelines" / "distribution" / "lost_peer.py"


def test_the_survivor_says_that_another_process_has_ended(tmp_path):
    ports = free_ports(2)
    outs = [tmp_path / f"{rank}.txt" for rank in range(2)]
    chief, killed = (start([SCRIPT, out], rank, 2, 1, ports) for rank, out in enumerate(outs))
    try:
        deadline = time.monotonic() + 600
        while chief.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
        assert killed.wait(10) == -signal.SIGKILL
        if BACKEND == "jax" and chief.poll() == -signal.SIGABRT:
            # JAX's own watch was quicker than the broken connection; it aborts with its own words.
            chief.output.seek(0)
            assert "distributed service detected fatal errors" in chief.output.read()
        else:
            assert chief.poll() == 0
            assert "Another of the 2 processes has ended" in outs[0].read_text()
    finally:
        for process in (chief, killed):
            process.kill()
            process.wait()
            process.output.close()
