"""The process of one contender: `python contender.py NAME JOB`, which answers `measure.Worker`.

NAME is a peer, with the JOB as JSON; or `matrix product`, which says how many floating-point
operations the machine gives a library that does nothing else.
"""

import gc
import json
import os
import pathlib
import sys
import time

import measure

PRODUCT = "matrix product"
CPU_SIDE, ACCELERATOR_SIDE = 2048, 8192  # of the matrices


def main(name, job):
    if name == PRODUCT:
        return measure.serve(Product(**json.loads(job)).work)
    measure.serve(Contender(name, json.loads(job)).work)


class Contender:
    """A peer that is made when it is first asked, so that its failure is an answer."""

    def __init__(self, name, job):
        self._name, self._job, self._peer = name, job, None

    def work(self, task, seconds=0.0, steps=1, least=1):
        """Does a task over and over for so many seconds, and at least so often."""
        import peers

        if task == "build":
            return self._build(peers)
        if task == "forget the peak":
            pathlib.Path("/proc/self/clear_refs").write_text("5")
            return {}
        if self._peer is None:
            self._peer = peers.make(self._name, peers.Job(**self._job))
        if task == "train":
            answer = timed(lambda: self._peer.train(steps), seconds, least, steps)
        else:
            answer = timed(self._peer.forward, seconds, least)
        return answer | device_peak()

    def _build(self, peers):
        build = peers.builder(self._name, peers.Job(**self._job))
        gc.collect()  # the model before, which is in cycles: a gigabyte
        start = time.perf_counter()
        build()
        return {"seconds": time.perf_counter() - start}


def timed(work, seconds, least=1, parts=1):
    """Seconds of one part of the work, its mean over as many turns as there is time for."""
    count, start = 0, time.perf_counter()
    while count < least or time.perf_counter() - start < seconds:
        work()
        count += 1
    return {"seconds": (time.perf_counter() - start) / count / parts, "count": count * parts}


def on_accelerator():
    """Whether the library of KERAS_BACKEND computes on anything else than a CPU."""
    backend = os.environ["KERAS_BACKEND"]
    if backend == "jax":
        import jax

        return jax.default_backend() != "cpu"
    if backend == "torch":
        import torch

        return torch.cuda.is_available()
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))


def device_peak():
    """`{"device_peak": MiB}` in use at most on the accelerator; empty without one."""
    if not on_accelerator():
        return {}
    backend = os.environ["KERAS_BACKEND"]
    if backend == "jax":
        import jax

        peak = (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)
    elif backend == "torch":
        import torch

        peak = torch.cuda.max_memory_allocated()
    else:
        import tensorflow as tf

        peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
    return {"device_peak": peak / 2**20}


class Product:
    """`(n, n) @ (n, n)` by a library, over and over."""

    def __init__(self, library, dtype="float32", side=None):
        self._library, self._dtype, self._side, self._call = library, dtype, side, None

    def work(self, seconds=0.0, least=3, **request):
        if self._call is None:
            make = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}[self._library]
            self._side = self._side or (ACCELERATOR_SIDE if on_accelerator() else CPU_SIDE)
            self._call = make(self._side, self._dtype)
        answer = timed(self._call, seconds, least)
        return answer | {"flops": 2 * self._side**3 / answer["seconds"]}


def _tensorflow(side, dtype):
    import tensorflow as tf

    a = tf.cast(tf.random.normal((side, side)), dtype)

    def product():
        tf.matmul(a, a)
        tf.test.experimental.sync_devices()

    return product


def _jax(side, dtype):
    import jax

    a = jax.random.normal(jax.random.key(0), (side, side), dtype)
    call = jax.jit(lambda a: a @ a)
    return lambda: jax.block_until_ready(call(a))


def _torch(side, dtype):
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randn(side, side, dtype=getattr(torch, dtype), device=device)

    def product():
        a @ a
        if device == "cuda":
            torch.cuda.synchronize()

    return product


if __name__ == "__main__":
    main(*sys.argv[1:])
