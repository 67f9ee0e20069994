"""Products that are computed in another form on a CPU."""

import keras
import numpy as np
import pytest
import reference_vit
from jit_on_torch import JIT_ON_TORCH
from keras import ops
from layer_contract import assert_close, random_inputs, to_numpy

from keras_vit.layers import platform
from keras_vit.layers.activations import activation_function

B, N, D, H, K, M = 5, 7, 12, 3, 4, 10


def dense(lora=False):
    layer = keras.layers.Dense(M, bias_initializer="normal")
    return built(layer, (None, N, D), lora), 1, "bnd,dm->bnm", (B, N, D)


def into_heads(lora=False):
    layer = keras.layers.EinsumDense(
        "bnd,dhk->bnhk", (None, H, K), bias_axes="hk", bias_initializer="normal"
    )
    return built(layer, (None, N, D), lora), 1, "bnd,dhk->bnhk", (B, N, D)


def out_of_heads(lora=False):
    layer = keras.layers.EinsumDense(
        "bnhk,hkm->bnm", (None, M), bias_axes="m", bias_initializer="normal"
    )
    return built(layer, (None, N, H, K), lora), 2, "bnhk,hkm->bnm", (B, N, H, K)


def built(layer, shape, lora):
    layer.build(shape)
    if lora:
        layer.enable_lora(2)
        layer.lora_kernel_b.assign(random_inputs(*layer.lora_kernel_b.shape) + 0.5)
    return layer


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("make", [dense, into_heads, out_of_heads])
def test_projections(make, lora, onednn):
    layer, axes, equation, shape = make(lora)
    tokens = random_inputs(*shape)
    kernel, bias = (np.float64(to_numpy(v)) for v in (layer.kernel, layer.bias))
    expected = np.einsum(equation, np.float64(tokens), kernel) + bias

    def project(x):
        return platform.projected(layer, x, axes)

    inputs = keras.Input(shape[1:])
    model = keras.Model(inputs, keras.layers.Lambda(project)(inputs))
    assert model.output_shape == (None, *expected.shape[1:])
    for function in (project, model):
        assert_close(to_numpy(function(ops.convert_to_tensor(tokens))), expected, 1e-6)
    assert to_numpy(project(ops.zeros((0, *shape[1:])))).shape == expected[:0].shape


def test_a_step_of_training_is_that_of_the_layer(onednn):
    """Kernel, bias and what comes before get the gradients of products made by NumPy."""
    images, upstream = random_inputs(B, N, D), random_inputs(B, N, M)
    first, last = (keras.layers.Dense(M) for _ in range(2))

    class Twice(keras.layers.Layer):
        def build(self, shape):
            first.build(shape)
            last.build((*shape[:-1], M))
            self.parts = [first, last]

        def call(self, x):
            return platform.projected(last, platform.projected(first, x))

    model = keras.Sequential([keras.Input((N, D)), Twice()])
    before = {name: np.float64(to_numpy(v)) for name, v in variables(first, last).items()}
    model.compile(keras.optimizers.SGD(1.0), lambda y, out: ops.sum(y * out, axis=(1, 2)))
    model.fit(images, upstream, batch_size=B, verbose=0)
    x, g = images.reshape(-1, D).astype("float64"), upstream.reshape(-1, M) / B
    hidden = x @ before["first kernel"] + before["first bias"]
    back = g @ before["last kernel"].T
    expected = {
        "first kernel": x.T @ back,
        "first bias": back.sum(0),
        "last kernel": hidden.T @ g,
        "last bias": g.sum(0),
    }
    for name, variable in variables(first, last).items():
        assert_close(before[name] - to_numpy(variable), expected[name], 1e-5)


def variables(first, last):
    parts = {"first": first, "last": last}
    return {
        f"{name} {kind}": getattr(layer, f"_{kind}" if kind == "kernel" else kind)
        for name, layer in parts.items()
        for kind in ("kernel", "bias")
    }


def test_quantized_layers_multiply_in_their_own_way():
    layer, axes, _, shape = dense()
    tokens = random_inputs(*shape)
    layer.quantize("int8")
    assert_close(to_numpy(platform.projected(layer, tokens, axes)), to_numpy(layer(tokens)), 1e-6)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="the operation is PyTorch's")
def test_an_exported_graph_has_only_operations_that_others_know(onednn):
    import torch

    layer, *_ = dense()
    layer.trainable = False

    class Module(torch.nn.Module):
        def forward(self, x):
            return platform.projected(layer, x)

    tokens = torch.tensor(random_inputs(B, N, D))
    graph = torch.export.export(Module(), (tokens,)).graph
    called = {str(node.target) for node in graph.nodes if node.op == "call_function"}
    assert called and all(name.startswith("aten.") for name in called), called


# --- The tanh GELU -----------------------------------------------------------------------------

POINTS = np.float32([-200, -30, -9.2, -3, -0.75, -1e-3, 0, 1e-6, 0.3, 2, 5.5, 30, 1e20])
SLOPE_STEP = 1e-5


@pytest.mark.skipif(platform.BACKEND != "tensorflow", reason="what TensorFlow fuses")
def test_tensorflow_finds_product_bias_and_activation_in_a_row():
    import tensorflow as tf

    read = []

    def activation(numbers):
        read.append(numbers.op)
        return ops.relu(numbers)

    layer, axes, _, shape = dense()
    step = tf.function(lambda x: platform.projected(layer, x, axes, activation))
    step.get_concrete_function(tf.TensorSpec(shape))
    assert [op.type for op in read] == ["BiasAdd"]
    assert read[0].inputs[0].op.type == "MatMul"


BOTH_GELUS = pytest.mark.parametrize("name", ["gelu", "gelu_tanh"])


def gelu_and_slope(name):
    gelu, points = getattr(reference_vit, name), np.float64(POINTS)
    sides = [gelu(points + sign * SLOPE_STEP) for sign in (1, -1)]
    return gelu(points), (sides[0] - sides[1]) / (2 * SLOPE_STEP)


@BOTH_GELUS
def test_gelu(name):
    gelu = getattr(platform, name)
    actual = to_numpy(gelu(ops.convert_to_tensor(POINTS)))
    np.testing.assert_allclose(actual, gelu_and_slope(name)[0], rtol=1e-6, atol=1e-6)
    assert gelu(keras.KerasTensor((2, 3))).shape == (2, 3)
    assert activation_function(name) is gelu


OF_TENSORFLOW = pytest.mark.skipif(
    platform.BACKEND != "tensorflow", reason="TensorFlow has a gradient of its own"
)


def tensorflow_step(gelu, points, read):
    """Values and three times the slopes; `read` gets the forward operations that these read."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(points)
        values = gelu(points)
    forward = set(tf.compat.v1.get_default_graph().get_operations())
    gradient = tape.gradient(values, points, output_gradients=3 * tf.ones_like(points))
    left, seen = [gradient.op], set()
    while left:
        seen.add(op := left.pop())
        left += [tensor.op for tensor in op.inputs if tensor.op not in seen]
    read.update(op.type for op in seen & forward)
    return values, gradient


@OF_TENSORFLOW
@pytest.mark.parametrize("jit_compile", [False, True])
@BOTH_GELUS
def test_gelu_and_its_gradient_on_tensorflow(name, jit_compile):
    import tensorflow as tf

    gelu = getattr(platform, name)
    step = tf.function(lambda points: tensorflow_step(gelu, points, set()), jit_compile=jit_compile)
    values, gradient = step(tf.constant([*POINTS[:-1], 1e15, -1e15]))
    wanted, slope = (array[:-1] for array in gelu_and_slope(name))
    np.testing.assert_allclose(values, [*wanted, 1e15, 0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(gradient, [*(3 * slope), 3, 0], rtol=1e-4, atol=1e-5)


@OF_TENSORFLOW
@BOTH_GELUS
def test_the_gradient_of_gelu_keeps_nothing_but_its_input_on_tensorflow(name):
    import tensorflow as tf

    gelu, read = getattr(platform, name), set()
    tf.function(lambda points: tensorflow_step(gelu, points, read))(tf.constant(POINTS))
    assert "Placeholder" in read
    assert read <= {"Placeholder", "Const", "Identity", "IdentityN"}


@pytest.mark.skipif(platform.BACKEND != "torch", reason="the other backends have one form of it")
@pytest.mark.parametrize("how", ["inference", "gradients", pytest.param("jit", marks=JIT_ON_TORCH)])
def test_tanh_gelu_in_each_form(how):
    import torch

    function = torch.compile(platform.gelu_tanh) if how == "jit" else platform.gelu_tanh
    points = torch.tensor(POINTS[:-1], requires_grad=True)
    with torch.set_grad_enabled(how != "inference"):
        values = function(points)
    wanted, slope = (array[:-1] for array in gelu_and_slope("gelu_tanh"))
    np.testing.assert_allclose(to_numpy(values), wanted, rtol=1e-6, atol=1e-6)
    if how != "inference":
        values.sum().backward()
        np.testing.assert_allclose(points.grad.numpy(), slope, rtol=1e-4, atol=1e-5)


# --- The gradient of the residual stream -------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("value", [0.0, -0.0, 3.0, -2.0, np.nan, np.inf])
def test_tokens_to_be_computed_once_stay_as_they_are(value, dtype):
    tokens = ops.convert_to_tensor(random_inputs(B, N, D), dtype)
    variable = keras.Variable(np.full((D,), value, "float32"))
    same = platform.computed_once(tokens, variable)
    assert keras.backend.standardize_dtype(same.dtype) == dtype
    np.testing.assert_array_equal(to_numpy(same), to_numpy(tokens))


@pytest.mark.skipif(platform.BACKEND != "jax", reason="the programs of XLA are read through JAX")
def test_every_block_adds_as_much_to_the_gradient():
    counts = [multiplications(depth) for depth in (2, 4, 6)]
    first, second = np.diff(counts)
    assert 0 < second < 1.1 * first  # without `computed_once` 1.4 times


def multiplications(depth):
    """How many there are in the compiled gradient of an encoder of so many blocks."""
    import jax

    from keras_vit import VisionTransformer

    jax.config.update("jax_disable_most_optimizations", False)
    model = VisionTransformer((16, 24), 8, depth, 2, 16, 24, classes=5, classifier_activation=None)
    others = [v.value for v in model.non_trainable_variables]

    def loss(trainable, images):
        logits, _ = model.stateless_call(trainable, others, images, training=True)
        return (logits**2).mean()

    trainable = [v.value for v in model.trainable_variables]
    gradient = jax.jit(jax.grad(loss)).lower(trainable, np.ones((B, 16, 24, 3), "float32"))
    return gradient.compile().as_text().count(" multiply(")
