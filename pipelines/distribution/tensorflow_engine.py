"""TensorFlow: `tf.distribute`, and what Keras's `fit` leaves out under it.

MirroredStrategy on one host, MultiWorkerMirroredStrategy on several (experimental: Keras does not
support it, https://github.com/keras-team/keras/issues/20585), TPUStrategy (never run by us).
"""

import functools
import sys

import keras
import numpy as np

from pipelines._tensorflow import tf
from pipelines.distribution import seeds, training
from pipelines.distribution.engine import Engine

MESSAGE = 8  # numbers of 64 bits


class TensorFlowEngine(Engine):
    strategy = None

    def start(self):
        self._refuse_kind("data", "tpu")
        self._refuse_keras_distribution()
        if self.spec.kind == "tpu":
            self.strategy = _tpu_strategy(self.spec.name)
        elif self._processes > 1:
            self.strategy = _multi_worker_strategy()
            resolver = self.strategy.cluster_resolver
            self.hosts, self.host = self._processes, _host(resolver)
            self.callback(take_local_results())
        else:
            kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
            devices = [device.name for device in tf.config.list_logical_devices(kind)]
            self.strategy = tf.distribute.MirroredStrategy(devices)
        self.replicas = self.strategy.num_replicas_in_sync
        self.enter_context(self.strategy.scope())
        self.enter_context(seeds.seeds_by_replica(_replica))
        self.enter_context(training.watched(self))

    def check(self, model):
        seeds.check_seeds(model)
        in_scope = self.strategy.extended.variable_created_in_scope
        if not all(in_scope(variable.value) for variable in model.variables):
            raise ValueError(
                "The model must be built within `with distribute(...)`, where its variables get a "
                f"copy on every replica. Received: model={model!r}, built outside"
            )
        if model.jit_compile:
            raise ValueError(
                "A strategy of TensorFlow cannot compile the step with XLA. Received: "
                "jit_compile=True. Leave it 'auto'. (https://github.com/keras-team/keras/issues/20763)"
            )
        if self.replicas > 1:
            _check_options(model)

    def prepare(self, model, data):
        optimizer = model.optimizer
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        if self.replicas > 1 and optimizer is not None:
            clip_after_reduction(optimizer)
        if self.hosts > 1:
            build_from_zeros(model, data.element_spec)

    def feed(self, data):
        if self.hosts == 1 or not isinstance(data, tf.data.Dataset):
            return data
        replicas = self.replicas // self.hosts
        if replicas > 1:
            rows = keras.tree.flatten(data.element_spec)[0].shape[0]
            data = data.rebatch(rows // replicas)
        return self.strategy.distribute_datasets_from_function(lambda context: data)

    def lost_peer(self, error):
        # Its connection was closed, or it answers no more.
        lost = (tf.errors.UnavailableError, tf.errors.DeadlineExceededError)
        return self.hosts > 1 and isinstance(error, lost)

    def gather(self, numbers):
        if self.hosts == 1:
            return super().gather(numbers)
        numbers = np.asarray(numbers)  # of 64 bits
        # All of one length, so that one function serves all: each leaves a graph behind.
        message = np.zeros(-(-len(numbers) // MESSAGE) * MESSAGE, "int64")
        message[: len(numbers)] = numbers.view("int64")
        rows = self._of_all_hosts(tf.constant(message))[:, : len(numbers)]
        return np.ascontiguousarray(rows).view(numbers.dtype).tolist()

    def outputs_of_hosts(self, model, batches):
        @tf.function
        def step(images):
            return self.strategy.run(lambda x: model(x, training=False), args=(images,))

        mine = []  # (b, ...) of each step
        for images in self.feed(batches):
            parts = self.strategy.experimental_local_results(step(images))
            mine.append(np.concatenate([part.numpy() for part in parts]))
        whole = self._of_all_hosts(tf.constant(np.stack(mine)))  # (hosts, steps, b, ...)
        whole = np.moveaxis(whole, 0, 1)
        return whole.reshape(-1, *whole.shape[3:])

    def _of_all_hosts(self, value):
        """`(hosts, ...)` of one tensor of each host, as an array."""
        rows = self.strategy.experimental_local_results(_of_all_replicas(value[None]))[0]
        return rows.numpy()[:: self.replicas // self.hosts]


@functools.cache
def _multi_worker_strategy():
    """Once in a process: a second strategy would find the collectives of the first."""
    return tf.distribute.MultiWorkerMirroredStrategy()


@tf.function
def _of_all_replicas(value):
    """`(replicas, ...)` of one tensor `(1, ...)` of each replica."""

    def rows(value):
        value = tf.identity(value)  # on the replica's device, by which it is gathered
        return tf.distribute.get_replica_context().all_gather(value, axis=0)

    return tf.distribute.get_strategy().run(rows, args=(value,))


def _tpu_strategy(name):
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(name or "local")
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


def _host(resolver):
    """This process's place: the chief, if there is one, comes before the workers."""
    if resolver.task_type == "chief":
        return 0
    return resolver.task_id + len(resolver.cluster_spec().as_dict().get("chief", []))


def _replica():
    context = tf.distribute.get_replica_context()
    return 0 if context is None else context.replica_id_in_sync_group


def _check_options(model):
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    # The option, its value, the one to use, and where the failure under a strategy is known.
    options = (
        ("steps_per_execution", model.steps_per_execution, 1, 19246),
        ("gradient_accumulation_steps", optimizer.gradient_accumulation_steps, None, 20582),
        ("ema_overwrite_frequency", optimizer.ema_overwrite_frequency, None, 20582),
    )
    for name, value, wanted, issue in options:
        if value not in (None, wanted):
            raise ValueError(
                f"`{name}` fails in Keras under a strategy of TensorFlow. Received: "
                f"{name}={value}. Use {wanted}, or KERAS_BACKEND=jax. "
                f"(https://github.com/keras-team/keras/issues/{issue})"
            )


def clip_after_reduction(optimizer):
    """Clips the sum of the gradients instead of each replica's share of it.

    Keras clips before the replicas are summed, so that the clipped step is as long as there are
    replicas: https://github.com/tensorflow/tensorflow/issues/33929.
    """
    if hasattr(optimizer, "_clips_after_reduction"):
        return
    clip, reduce = optimizer._clip_gradients, optimizer._all_reduce_sum_gradients

    def reduce_and_clip(gradients_and_variables):
        gradients, variables = zip(*reduce(gradients_and_variables), strict=True)
        return list(zip(clip(list(gradients)), variables, strict=True))

    optimizer._clip_gradients = lambda gradients: gradients
    optimizer._all_reduce_sum_gradients = reduce_and_clip
    optimizer._clips_after_reduction = True


def build_from_zeros(model, element_spec):
    """Makes the variables of optimizer and metrics.

    Keras would reduce a distributed batch over the workers for it, and fails:
    https://github.com/keras-team/keras/issues/20585.
    """
    if "_maybe_symbolic_build" not in vars(model):
        batch = keras.tree.map_structure(
            lambda spec: tf.zeros(spec.shape, spec.dtype), element_spec
        )
        model._symbolic_build(data_batch=batch)
        model._maybe_symbolic_build = lambda *args, **kwargs: None


def take_local_results():
    """Reads the logs of a step on this worker, where Keras averages scalars along an axis.

    https://github.com/keras-team/keras/issues/20585. Metrics at the end of an epoch are over all
    workers. Returns the function that undoes it.
    """
    trainer = next(cls for cls in keras.Model.__mro__ if "make_train_function" in vars(cls))
    module = sys.modules[trainer.__module__]
    original = module.reduce_per_replica

    def reduce_per_replica(values, strategy, reduction):
        if reduction != "auto":
            return original(values, strategy, reduction)
        local = functools.partial(_first_local, strategy)
        return keras.tree.map_structure(local, values)

    module.reduce_per_replica = reduce_per_replica
    return functools.partial(setattr, module, "reduce_per_replica", original)


def _first_local(strategy, value):
    return strategy.experimental_local_results(value)[0]
