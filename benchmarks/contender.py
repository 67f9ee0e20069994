"""The process of one contender: `python contender.py NAME JOB`, which answers `measure.Worker`.

NAME is a peer, with the JOB as JSON; or `matrix product`, which says how many floating-point
operations the machine gives a library that does nothing else.
"""

import json
import sys
import time

import measure

PRODUCT = "matrix product"
SIDE = 2048


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
        if self._peer is None:
            self._peer = peers.make(self._name, peers.Job(**self._job))
        if task == "train":
            return timed(lambda: self._peer.train(steps), seconds, least, steps)
        return timed(self._peer.forward, seconds, least)

    def _build(self, peers):
        build = peers.builder(self._name, peers.Job(**self._job))
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


class Product:
    """`(n, n) @ (n, n)` by a library, over and over."""

    def __init__(self, library, dtype="float32", side=SIDE):
        self._library, self._dtype, self._side, self._call = library, dtype, side, None

    def work(self, seconds=0.0, least=3, **request):
        if self._call is None:
            make = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}[self._library]
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
