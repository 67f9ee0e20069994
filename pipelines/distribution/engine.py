"""What the engines of all backends have in common."""

import contextlib

import keras
import numpy as np

from pipelines.distribution.spec import Spec


class LostPeer(RuntimeError):
    """Another process of the run has ended, and this one cannot go on alone."""


class Engine(contextlib.ExitStack):
    """How models are trained within its `with` block; this one on one device, as Keras does.

    Attributes:
        spec: The `Spec`.
        hosts: Integer, processes that work together. Each reads its own share of the data.
        host: Integer, this process's place among them.
        replicas: Integer, copies of the model, each of which takes a share of every batch.
    """

    hosts, host, replicas = 1, 0, 1

    def __init__(self, spec=None, processes=1):
        super().__init__()
        self.spec = spec or Spec("off")
        self._processes = processes

    def __enter__(self):
        super().__enter__()
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __repr__(self):
        place = f"host {self.host} of {self.hosts}"
        return f"<{type(self).__name__} {self.spec}: {self.replicas} replicas, {place}>"

    @property
    def is_chief(self):
        """Whether this process is the one that writes checkpoints and logs."""
        return self.host == 0

    def local_batch_size(self, batch_size):
        """This host's examples of a batch of `batch_size` over all hosts.

        Raises:
            ValueError: if the replicas do not divide the batch.
        """
        if batch_size < 1 or batch_size % self.replicas:
            below = batch_size // self.replicas * self.replicas
            nearest = [str(n) for n in (below, below + self.replicas) if n]
            raise ValueError(
                f"The {self.replicas} replicas of {self.spec} must divide the batch. Received: "
                f"batch_size={batch_size}. The nearest that they divide: {' and '.join(nearest)}."
            )
        return batch_size // self.hosts

    def fetch(self, variables):
        """The values of variables, for a checkpoint: a list of arrays, the same on every host.

        All hosts must call it, whichever of them writes: a variable may be split over them, and
        some engines read others together too.
        """
        return [keras.ops.convert_to_numpy(variable) for variable in variables]

    def wait(self):
        """Waits for all hosts, as before a file is read that the chief writes."""
        self.gather([self.host])

    def outputs(self, model, batches):
        """What a model gives for images that every host has its rows of.

        Args:
            model: A model with one output, built within the `with` block.
            batches: `tf.data.Dataset` of this host's rows of batches of one size, images alone.

        Returns:
            NumPy `(rows of all batches of all hosts, ...)`, in their order, on every host.
        """
        if self.hosts == 1:
            return np.asarray(model.predict(batches, verbose=0))
        return self.outputs_of_hosts(model, batches)

    @contextlib.contextmanager
    def explained(self):
        """A context that says in a sentence that another process has ended.

        Raises:
            LostPeer: in the place of what the backend raises then.
        """
        try:
            yield
        except LostPeer:
            raise
        except Exception as error:
            if not self.lost_peer(error):
                raise
            raise LostPeer(
                f"Another of the {self.hosts} processes has ended, and none goes on alone. Start "
                "all of them again, from the last checkpoint."
            ) from error

    def alone(self):
        """A context in which models are made that only this process holds, to be saved.

        All processes must enter it, since some engines make every model together.
        """
        return contextlib.nullcontext()

    # What an engine adds. `__enter__` calls the first, `training.watched` the others.

    def start(self):
        """Finds the devices and the other processes, and makes the scope for models."""

    def check(self, model):
        """Refuses what this engine cannot train, before it begins."""

    def prepare(self, model, data):
        """Mends a compiled model for this engine; `data` is what `fit` or `evaluate` reads."""

    def check_predict(self):
        """Refuses to predict where the engine cannot."""

    def feed(self, data):
        """What `fit` and `evaluate` take for this host's `tf.data.Dataset`."""
        return data

    def metrics_result(self, model, result):
        """The results of all metrics over all processes; `result()` gives this process's."""
        return result()

    def lost_peer(self, error):
        """Whether an error of training says that another process has ended."""
        return False

    def gather(self, numbers):
        """These numbers, all integers or all floats, of every process: a list of lists, by host."""
        return [list(numbers)]

    def outputs_of_hosts(self, model, batches):
        """`outputs` where there are several hosts."""
        raise NotImplementedError

    def splits_over_hosts(self, variables):
        """Whether some of these variables are in parts that lie on several hosts."""
        return False

    # Words for the messages of the engines.

    def _refuse_keras_distribution(self):
        if keras.distribution.distribution() is not None:
            raise ValueError(
                "`keras.distribution` splits models on the JAX backend only: on TensorFlow it does "
                "nothing, on PyTorch it fails. Leave it out, as this spec is enough. Received: "
                f"backend={keras.backend.backend()!r}, spec='{self.spec}'"
            )

    def _refuse_kind(self, *kinds):
        if self.spec.kind not in kinds:
            raise ValueError(
                f"The {keras.backend.backend()} backend has {' and '.join(map(repr, kinds))} only. "
                f"Received: spec='{self.spec}'. Model and fully sharded parallelism need "
                "KERAS_BACKEND=jax; 'tpu' needs KERAS_BACKEND=tensorflow, and on JAX is 'data'."
            )
