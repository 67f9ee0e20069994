"""JAX: `keras.distribution`, in one process or in several.

Loss, clipping and dropout act on the whole batch here, so nothing of training needs mending.
"""

import contextlib
import functools
import os
import weakref
import zlib

import keras
import numpy as np

from keras_vit.models import layout
from pipelines.distribution import seeds, training
from pipelines.distribution.engine import Engine

# How long a process may be silent before JAX ends the others; its own value is 100 seconds. Threads
# of their own send the heartbeats, so that no long step or compilation counts as silence; but two
# processes on one busy core were both found silent for 30.
HEARTBEAT_SECONDS = 60

# What errors of a step say whose messages come from a process that is gone.
LOST = ("gloo", "Gloo", "NCCL", "heartbeat", "coordination service", "UNAVAILABLE", "by peer")


class JaxEngine(Engine):
    def start(self):
        self._refuse_kind("data", "model", "fsdp")
        import jax

        if self._processes > 1:
            _initialize()
        self.hosts, self.host = jax.process_count(), jax.process_index()
        distribution = self._distribution()
        self.replicas = distribution.num_model_replicas
        if self.replicas % self.hosts:
            raise ValueError(
                "Each process must hold whole copies of the model, as it reads data for them. "
                f"Received: spec='{self.spec}', {self.hosts} processes. Let the processes divide "
                "the first size of 'model:BxM'."
            )
        self._checked = weakref.WeakSet()
        self._forwards = weakref.WeakKeyDictionary()  # each compiled once
        self.enter_context(distribution.scope())
        self.enter_context(training.watched(self))

    def check(self, model):
        seeds.check_seeds(model)
        import jax

        # On one device JAX notes no place, and there is none to miss.
        for variable in model.variables if jax.device_count() > 1 else ():
            if not isinstance(variable.value.sharding, jax.sharding.NamedSharding):
                raise ValueError(
                    "The model must be built within `with distribute(...)`, where its variables "
                    f"get their places. Received: model={model!r}, built outside"
                )
        if model not in self._checked:
            self._check_variables_agree(model)
            self._checked.add(model)

    def check_predict(self):
        if self.hosts > 1:
            raise ValueError(
                "In several JAX processes `predict` cannot fetch what lies on the others' devices. "
                "Use `evaluate`, or call the model and gather with "
                "`jax.experimental.multihost_utils.process_allgather`. "
                f"Received: {self.hosts} processes"
            )

    def fetch(self, variables):
        from jax.experimental import multihost_utils

        def whole(variable):
            if _in_parts(variable):
                return multihost_utils.process_allgather(variable.value, tiled=True)
            return keras.ops.convert_to_numpy(variable)

        return [whole(variable) for variable in variables]

    def splits_over_hosts(self, variables):
        return any(_in_parts(variable) for variable in variables)

    @contextlib.contextmanager
    def alone(self):
        """On the host, whose memory is larger, and without the places of the distribution."""
        import jax

        distribution = keras.distribution.distribution()
        keras.distribution.set_distribution(None)
        try:
            with jax.default_device(_host_device(jax)):
                yield
        finally:
            keras.distribution.set_distribution(distribution)

    def outputs_of_hosts(self, model, batches):
        import jax

        if model not in self._forwards:
            self._forwards[model] = self._forward(weakref.proxy(model))
        state = (
            [variable.value for variable in model.trainable_variables],
            [variable.value for variable in model.non_trainable_variables],
        )
        distribution, outputs = keras.distribution.distribution(), []
        for images in batches.as_numpy_iterator():
            layout = distribution.get_data_layout(images.shape).backend_layout
            images = jax.make_array_from_process_local_data(layout, images)
            outputs.append(np.asarray(self._forwards[model](*state, images)))
        return np.concatenate(outputs)

    def _forward(self, model):
        """The outputs of a model, whole on every host, which those of Keras's `predict` are not."""
        import jax

        mesh = keras.distribution.distribution().device_mesh.backend_mesh
        whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())

        @functools.partial(jax.jit, out_shardings=whole)
        def forward(trainable, others, images):
            return model.stateless_call(trainable, others, images, training=False)[0]

        return forward

    def lost_peer(self, error):
        # Where nothing is waited for, JAX's own watch ends the process, by SIGABRT.
        named = type(error).__name__ in ("JaxRuntimeError", "XlaRuntimeError", "ValueError")
        return self.hosts > 1 and named and any(words in str(error) for words in LOST)

    def gather(self, numbers):
        from jax.experimental import multihost_utils

        if self.hosts == 1:
            return super().gather(numbers)
        numbers = np.asarray(numbers)
        # As bytes, since JAX would make 32 bits of them.
        shares = multihost_utils.process_allgather(numbers.view("uint8"))
        return np.ascontiguousarray(shares).view(numbers.dtype).tolist()

    def _distribution(self):
        devices = keras.distribution.list_devices()
        if self.spec.kind == "data":
            return keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False)
        shape = self.spec.mesh
        if np.prod(shape) != len(devices):
            raise ValueError(
                f"The devices of the spec must be all there are. Received: spec='{self.spec}', "
                f"{len(devices)} devices"
            )
        names = ("batch", "model")[: len(shape)]
        mesh = keras.distribution.DeviceMesh(shape, names, devices)
        return _by_variable(mesh)

    def _check_variables_agree(self, model):
        """Refuses processes with different weights or seeds, which nothing else would show."""
        if self.hosts == 1:
            return
        begins = (
            variable.value.addressable_data(0).reshape(-1)[:1024]
            for variable in model.variables
            if variable.value.is_fully_replicated
        )
        checksum = zlib.crc32(b"".join(np.asarray(begin).tobytes() for begin in begins)) >> 1
        checksums = self.gather([checksum])
        if any(other != checksums[0] for other in checksums):
            raise ValueError(
                "The processes must start from the same weights and seeds. Received: checksums by "
                f"process {checksums}. Call `keras.utils.set_random_seed` with one number in all "
                "of them before the model is built."
            )


def _initialize():
    """Joins the other processes, unless the caller has."""
    import jax

    if not jax.distributed.is_initialized():
        if not os.environ.get("KERAS_DISTRIBUTION_PROCESS_ID") and not os.environ.get(
            "TPU_WORKER_HOSTNAMES"
        ):
            raise ValueError(
                "KERAS_DISTRIBUTION_NUM_PROCESSES needs KERAS_DISTRIBUTION_PROCESS_ID and "
                "KERAS_DISTRIBUTION_JOB_ADDRESSES beside it. Received: no process id"
            )
        join = jax.distributed.initialize
        # Keras's function, which also gives all processes one seed, has no argument for this.
        jax.distributed.initialize = functools.partial(
            join, heartbeat_timeout_seconds=HEARTBEAT_SECONDS
        )
        try:
            keras.distribution.initialize()
        finally:
            jax.distributed.initialize = join


def _host_device(jax):
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # where JAX_PLATFORMS names accelerators only
        return jax.local_devices()[0]


def _in_parts(variable):
    """Whether no single host has the whole of a variable."""
    value = variable.value
    return not (value.is_fully_addressable or value.is_fully_replicated)


def _by_variable(mesh):
    """`ModelParallel` that asks for the place of each variable as the model makes it.

    The rules of `keras_vit.layout_map` need the shapes, and the model is not there yet.
    """
    sizes = dict(zip(mesh.axis_names, mesh.shape, strict=True))

    class ByVariable(keras.distribution.ModelParallel):
        def get_variable_layout(self, variable):
            place = super().get_variable_layout(variable)
            if any(place.axes):
                return place  # a slot of an optimizer, which follows its variable
            axes = layout.axes_of(variable.path, tuple(variable.shape), sizes)
            return keras.distribution.TensorLayout(axes, mesh)

    return ByVariable(
        layout_map=keras.distribution.LayoutMap(mesh),
        batch_dim_name="batch",
        auto_shard_dataset=False,
    )
