"""JAX: `keras.distribution`, in one process or in several.

Loss, clipping and dropout act on the whole batch here, so nothing of training needs mending.
"""

import os
import weakref
import zlib

import keras
import numpy as np

from keras_vit.models import layout
from pipelines.distribution import seeds, training
from pipelines.distribution.engine import Engine


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
            if variable.value.is_fully_addressable or variable.value.is_fully_replicated:
                return keras.ops.convert_to_numpy(variable)
            return multihost_utils.process_allgather(variable.value, tiled=True)

        return [whole(variable) for variable in variables]

    def lost_peer(self, error):
        # Mostly JAX's own watch ends the process before, a minute and a half after the other's end.
        return self.hosts > 1 and type(error).__name__ in ("JaxRuntimeError", "XlaRuntimeError")

    def gather(self, numbers):
        from jax.experimental import multihost_utils

        if self.hosts == 1:
            return super().gather(numbers)
        return np.asarray(multihost_utils.process_allgather(np.asarray(numbers))).tolist()

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
        keras.distribution.initialize()


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
