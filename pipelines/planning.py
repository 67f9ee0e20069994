"""Will a model fit? Memory and multiply-adds of a training step, from the model's sizes alone.

No weights are made. Parameters, gradients and optimizer are exact sums over the variables;
activations are an estimate, see `block_activations`.
"""

import contextlib
import dataclasses
import math

import keras
import numpy as np

import keras_vit
from keras_vit.applications.facts import CONSTRUCTORS
from keras_vit.layers import EncoderBlock, checks
from keras_vit.models import layout
from keras_vit.models.forward_pass import class_token_block
from pipelines.distribution.spec import Spec

GIB = 2**30

# What `memory_analysis` of XLA found on a CPU, as a share of the estimate: 0.86 to 1.06 for six
# Vision Transformers of 2 to 3 blocks and 65 to 257 tokens, half of them pooled by the class token,
# and 0.82 and 0.88 for two of 4 blocks and 17 tokens, in float32. On CPUs XLA computes 16-bit
# products in float32 and undoes rematerialisation, so that those are not measured.
# tests/pipelines/test_planning.py measures again.
ACTIVATION_ERROR = (0.80, 1.10)

# What the backward pass of the block at work needs besides, as a share of what the block keeps.
WORKSPACE = 0.3


@dataclasses.dataclass(frozen=True)
class Plan:
    """One layout of a training step. Bytes and multiply-adds are of one device.

    Attributes:
        spec: The `Spec`.
        replicas: Integer, shares of the batch.
        parameters: Integer, bytes of the variables of the model.
        gradients: Integer, bytes.
        optimizer: Integer, bytes of the optimizer's variables.
        activations: Integer, bytes kept for the backward pass (an estimate).
        rematerialized: Integer, the same where blocks keep only their inputs.
        macs: Integer, multiply-adds of a step.
        rematerialized_macs: Integer, the same where blocks are computed twice.
    """

    spec: Spec
    replicas: int
    parameters: int
    gradients: int
    optimizer: int
    activations: int
    rematerialized: int
    macs: int
    rematerialized_macs: int

    def total(self, rematerialize=False):
        """All bytes, with or without rematerialisation."""
        kept = self.rematerialized if rematerialize else self.activations
        return self.parameters + self.gradients + self.optimizer + kept


def plan(model, optimizer, batch_size, spec, devices):
    """The memory and the work of one device.

    Args:
        model: An `ImageModel`; it may have been made in a stateless scope, without values.
        optimizer: A Keras optimizer.
        batch_size: Integer, over all devices.
        spec: A `Spec`.
        devices: Integer.

    Returns:
        A `Plan`.

    Raises:
        ValueError: if the devices do not divide the batch or the model as the spec wants.
    """
    checks.positive_integer(batch_size, "batch_size")
    mesh = mesh_shape(spec, checks.positive_integer(devices, "devices"))
    replicas = mesh.get("batch", 1)
    if batch_size % replicas:
        raise ValueError(
            f"The {replicas} shares of '{spec}' must divide the batch. "
            f"Received: batch_size={batch_size}"
        )
    parts = _parts(model, spec, mesh)
    trainable = sum(_bytes(v, parts[v.path]) for v in model.trainable_variables)
    images, split = batch_size // replicas, mesh.get("model", 1)
    forward = keras_vit.count_macs(model)
    blocks = sum(n for name, n in forward.by_layer.items() if name.startswith("block_"))
    return Plan(
        spec=spec,
        replicas=replicas,
        parameters=sum(_bytes(v, parts[v.path]) for v in model.variables),
        gradients=trainable,
        optimizer=_optimizer_bytes(model, optimizer, parts),
        activations=images * activations(model, split),
        rematerialized=images * activations(model, split, rematerialize=True),
        # Backward takes twice the products of forward: one for the input, one for the weights.
        macs=3 * batch_size * forward.total // devices,
        rematerialized_macs=batch_size * (3 * forward.total + blocks) // devices,
    )


def mesh_shape(spec, devices):
    """`{axis: devices}` of a spec.

    Raises:
        ValueError: if the spec needs another number of devices.
    """
    mesh = (1,) if spec.kind == "off" else spec.mesh or (devices,)
    if math.prod(mesh) != devices:
        raise ValueError(
            f"The devices of the spec must be all there are. Received: spec='{spec}', "
            f"devices={devices}"
        )
    return dict(zip(("batch", "model"), mesh, strict=False))


def layouts(model, devices):
    """The specs worth comparing: data, fully sharded, and each model axis up to 16 that divides."""
    specs = [Spec("data"), Spec("fsdp", (devices,))]
    common = math.gcd(model.spec.num_heads, model.spec.mlp_dim, devices)
    sizes = [size for size in range(2, 17) if common % size == 0]
    return specs + [Spec("model", (devices // size, size)) for size in sizes]


def activations(model, split=1, rematerialize=False):
    """Bytes that the backward pass of one image needs, over `split` devices (an estimate)."""
    blocks = [layer for layer in model.layers if isinstance(layer, EncoderBlock)]
    others = sum(_layer_activations(layer) for layer in model.layers if layer not in blocks)
    kept = [block_activations(block, split) for block in blocks]
    if class_token_block(model) is not None:
        kept[-1] = block_activations(blocks[-1], split, num_queries=1)
    if rematerialize:
        inputs = [_size(block) * math.prod(block.output.shape[1:]) for block in blocks]
        return others + sum(inputs) + int((1 + WORKSPACE) * max(kept, default=0))
    # The backward pass frees what a block kept before it comes to the block below.
    at_work = [sum(kept[: i + 1]) + int(WORKSPACE * kept[i]) for i in range(len(kept))]
    return others + max(at_work, default=0)


def block_activations(block, split=1, num_queries=None):
    """Bytes that one encoder block keeps for one image.

    With N tokens, of which the first Q are computed (all, where `num_queries` is None). Whole on
    every device: the input of the first norm and twice what it is made into (N, D), and the same
    of the second (Q, D). Split over the devices of a model axis: keys and values (N, D); queries
    before and after their scale, what the heads give and its projection (Q, D); the hidden layer
    before, within and after its activation (Q, M); the attention's weights (h, Q, N), in float32
    and in the block's own dtype. Counted so to agree with XLA, see `ACTIVATION_ERROR`.
    """
    tokens, width = block.output.shape[1:]
    queries = num_queries or tokens
    size, mlp_dim, heads = _size(block), block.mlp_dim, block.num_heads
    whole = 3 * (tokens + queries) * width * size
    shared = ((2 * tokens + 4 * queries) * width + 3 * queries * mlp_dim) * size
    return whole + (shared + heads * queries * tokens * (size + max(size, 4))) // split


def _layer_activations(layer):
    """Bytes that another layer keeps: what each convolution in it gives, and half for its norm."""
    if isinstance(layer, keras.layers.InputLayer):
        return 0
    inner = [conv for conv in ("conv1", "conv2", "conv3", "conv_proj") if hasattr(layer, conv)]
    numbers = math.prod(layer.output.shape[1:]) * max(1, len(inner))
    return numbers * _size(layer) * 3 // 2


def _size(layer):
    """Bytes of one number of a layer's output."""
    return np.dtype("float16" if "16" in layer.compute_dtype else layer.compute_dtype).itemsize


def _parts(model, spec, mesh):
    """`{path: numbers of the variable on one device}`."""
    shapes = {variable.path: tuple(variable.shape) for variable in model.variables}
    if spec.kind in ("off", "data", "tpu"):
        return {path: math.prod(shape) for path, shape in shapes.items()}
    axes = layout.variable_axes(model, mesh)
    return {
        path: math.prod(shape) // math.prod(mesh[name] for name in axes[path] if name)
        for path, shape in shapes.items()
    }


def _optimizer_bytes(model, optimizer, parts):
    """Slots lie as their variables do; the counters are whole on every device."""
    variables = _small_copy(optimizer, model.trainable_variables).variables
    counters = [v for v in variables if not tuple(v.shape)]
    slots = len(variables) - len(counters)
    each = slots // len(model.trainable_variables)
    if each * len(model.trainable_variables) != slots:
        raise ValueError(
            "Only optimizers with equally many slots for every variable can be planned. "
            f"Received: optimizer={optimizer.name}"
        )
    trainable = sum(_bytes(v, parts[v.path]) for v in model.trainable_variables)
    return each * trainable + sum(_bytes(v, 1) for v in counters)


def _small_copy(optimizer, variables):
    """The optimizer, built for variables of these paths and ranks, and one number each.

    On TensorFlow it could not be built for variables that have no values.
    """
    small = []
    for variable in variables:
        *parents, name = variable.path.split("/")
        with contextlib.ExitStack() as scopes:
            for parent in parents:
                scopes.enter_context(keras.name_scope(parent))
            value = np.zeros([1] * len(variable.shape), "float32")
            small.append(keras.Variable(value, dtype=variable.dtype, name=name))
    copy = type(optimizer).from_config(optimizer.get_config())
    copy.build(small)
    return copy


def _bytes(variable, numbers):
    return numbers * np.dtype(variable.dtype).itemsize


def model_without_values(name, image_size=None, dtype=None):
    """A named model that takes no memory, for a process that does nothing else.

    Keras keeps the variables that were never made in a list, and the next step of training would
    make them.
    """
    checks.one_of(name, "model", CONSTRUCTORS)
    shape = None if image_size is None else (*image_size, 3)
    with keras.StatelessScope(initialize_variables=False):
        return getattr(keras_vit, name)(weights=None, input_shape=shape, dtype=dtype)
