"""Where the form of a computation depends on what it runs on; its result never does."""

import math

import keras
from keras import ops

BACKEND = keras.backend.backend()

if BACKEND == "torch":
    from keras_vit.layers import torch_calls, torch_forms, torch_images


def tensorflow_or_jax_on_a_cpu():
    """Whether TensorFlow or JAX is the backend and computes on a CPU.

    There attention from plain products is faster than the fused operation of JAX (1.3 times,
    forward and backward, in processor time for 50 tokens of 4 heads), which besides has no compiled
    float16 form (JAX 0.10), and than that of TensorFlow, which is made of `tf.einsum`.
    """
    return BACKEND != "torch" and keras.distribution.list_devices()[0].lower().startswith("cpu")


def call_part(caller, part, *tensors, **arguments):
    """`part(*tensors, **arguments)`, within the caller's own `call` and nowhere else.

    Keras prepares every call: it converts what comes in, builds, enters scopes, finds out whether
    it trains. For a part of the caller's policy nothing of that is left to do, provided that
    `training` is among the arguments of a part that takes it. On PyTorch without a compiler it was
    half of what a tiny model takes.

    Args:
        caller: The layer or model that the part belongs to.
        part: A layer.
        *tensors: What it is called with.
        **arguments: Of its `call`, by name.
    """
    if BACKEND == "torch" and torch_calls.needs_no_preparation(caller, part, tensors):
        return torch_calls.call_module(part, tensors, arguments)
    return part(*tensors, **arguments)


def attention(query, key, value, bias=None):
    """softmax(q k^T + bias) v by the backend's fused operation.

    Args:
        query: Float tensor `(B, N, h, d)`, scaled.
        key, value: Float tensors `(B, M, h, d)`.
        bias: None, or a float tensor that broadcasts to `(B, h, N, M)`.

    Returns:
        Float tensor `(B, N, h, d)`.
    """
    if BACKEND == "torch":
        return torch_forms.attention(query, key, value, bias)
    return ops.dot_product_attention(query, key, value, bias=bias, scale=1.0)


def gelu(x):
    """The exact GELU, x Phi(x) of the normal distribution function Phi."""
    if _is_float32_of_tensorflow_on_a_cpu(x):
        return _gelu_that_keeps_its_input(x)
    return ops.gelu(x, approximate=False)


def gelu_tanh(x):
    """GELU in its tanh approximation, x * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2."""
    if BACKEND == "torch" and torch_forms.prefers_own_gelu(x):
        return torch_forms.gelu_tanh(x)
    if _is_float32_of_tensorflow_on_a_cpu(x):
        return _gelu_tanh_that_keeps_its_input(x)
    return ops.gelu(x, approximate=True)


# By itself Keras does not compile TensorFlow's steps where there are CPUs alone, and what
# TensorFlow's own gradients keep of the forward pass is a tenth of the memory of the process
# (ViT-S/16 in batches of 8: 2,240 in place of 2,560 MiB for the tanh form, 2,190 in place of 2,430
# for the exact one). Here they are computed from the input alone.


def _is_float32_of_tensorflow_on_a_cpu(x):
    ours = BACKEND == "tensorflow" and ops.is_tensor(x) and x.dtype == "float32"
    return ours and tensorflow_or_jax_on_a_cpu()


@ops.custom_gradient
def _gelu_that_keeps_its_input(x):
    def gradient(upstream):
        below = (1 + ops.erf(math.sqrt(0.5) * x)) / 2
        density = ops.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        return upstream * (below + x * density)

    return ops.gelu(x, approximate=False), gradient


@ops.custom_gradient
def _gelu_tanh_that_keeps_its_input(x):
    linear = 2 * math.sqrt(2 / math.pi)
    cubic = 0.044715 * linear

    def gradient(upstream):
        square = x * x
        sigmoid = ops.sigmoid(x * (linear + cubic * square))
        slope = sigmoid * (1 - sigmoid)  # first: what follows can be large where it is 0
        return upstream * (sigmoid + x * slope * (linear + 3 * cubic * square))

    return ops.gelu(x, approximate=True), gradient


def layer_norm(layer, tokens):
    """What a `keras.layers.LayerNormalization` of the last axis computes in its `call`.

    On PyTorch without the preparations of `keras.ops`, 2 of 23 ms that one image takes in a
    small model.
    """
    if BACKEND == "torch" and torch_forms.is_float32(layer, tokens):
        return torch_forms.layer_norm(layer, tokens)
    return keras.layers.LayerNormalization.call(layer, tokens)


def computed_once(tokens, variable):
    """The tokens as they are, in a form whose gradient XLA computes once on a CPU.

    The gradient of the residual stream is a sum that every block adds to. Sums and products are
    cheap to XLA's CPU compiler, so it repeats them, back to the last block, in each of the loops
    that read the gradient, and the work grows with the square of the depth: of ViT-S/16, 5,702
    multiplications in the compiled gradient in place of 1,187, and 10.2 GB of memory read and
    written in place of 7.2. A division counts as dear there and is not repeated. Its divisor is a
    1 that the compiler does not see through. An optimization barrier is of no use: this compiler
    takes it away before it fuses.

    Args:
        tokens: Float tensor.
        variable: Any float variable that is an argument of the compiled step.

    Returns:
        Tensor equal to `tokens` in every bit.
    """
    if not tensorflow_or_jax_on_a_cpu():
        return tokens
    positive = ops.ravel(variable)[0] > 0
    one = ops.maximum(
        ops.cast(positive, tokens.dtype), ops.cast(ops.logical_not(positive), tokens.dtype)
    )
    return tokens / one


def projected(layer, tokens, axes=1, activation=None):
    """`layer(tokens)`, computed as one product of two matrices where that is faster.

    On a CPU it is. With this and attention from plain products, a training step of ViT-S/16's
    blocks takes 7 % less processor time in TensorFlow and 16 % less in JAX than with Keras's
    operations. On an accelerator the flattening could cost these two a copy. PyTorch adds the bias
    in the same pass, on every device; TensorFlow the bias and a GELU too, on a CPU and without
    gradients, provided that nothing is reshaped between.

    Args:
        layer: A built `Dense` or `EinsumDense` without an activation, with a bias.
        tokens: Float tensor `(B, ..., *K)`.
        axes: Integer, the length of K: how many of the last axes are summed over.
        activation: None, or a function of each number that comes out.

    Returns:
        Float tensor `(B, ..., *M)`; K and M are the axes of the layer's kernel.
    """
    activation = activation or keras.activations.linear
    if layer.quantization_mode:
        return activation(layer(tokens))
    if BACKEND == "torch":
        return activation(torch_forms.projected(layer, tokens, axes))
    if not tensorflow_or_jax_on_a_cpu() or None in tokens.shape[1:]:
        return activation(layer(tokens))
    # Keras casts variables within the call of a layer; the analysis asks outside of one.
    tokens, kernel, bias = (
        ops.cast(value, layer.compute_dtype) for value in (tokens, layer.kernel, layer.bias)
    )
    rows = ops.reshape(tokens, (-1, math.prod(kernel.shape[:axes])))
    flat = ops.matmul(rows, ops.reshape(kernel, (rows.shape[-1], -1)))
    # Not `+`: TensorFlow fuses what `ops.add` makes of a bias.
    flat = ops.add(flat, ops.reshape(bias, (-1,)))
    shape = (-1, *tokens.shape[1 : len(tokens.shape) - axes], *kernel.shape[axes:])
    if BACKEND == "tensorflow":
        return ops.reshape(activation(flat), shape)
    return activation(ops.reshape(flat, shape))  # JAX fuses it, faster than of rows


def padded(images, border, value=0.0):
    """The images with a border.

    Args:
        images: Float tensor `(B, H, W, C)`.
        border: `((top, bottom), (left, right))` in pixels.
        value: Float, of the border's pixels.

    Returns:
        Float tensor `(B, top + H + bottom, left + W + right, C)`.
    """
    if not any(map(any, border)):
        return images
    if BACKEND == "torch":
        return torch_images.padded(images, border, value)
    return ops.pad(images, ((0, 0), *border, (0, 0)), constant_values=value)


def convolved(images, kernel, strides, border):
    """The convolution of images that get a border of zeros first.

    Args:
        images: Float tensor `(B, H, W, C)`.
        kernel: Float tensor `(h, w, C, F)`.
        strides: Pair of integers.
        border: `((top, bottom), (left, right))` in pixels.

    Returns:
        Float tensor `(B, H', W', F)`.
    """
    if BACKEND == "torch":
        if torch_images.prefers_own_forms(images):
            return torch_images.convolved(images, kernel, strides, border)
    images = padded(images, border)
    if tuple(kernel.shape[:2]) == (1, 1) and BACKEND == "jax" and tensorflow_or_jax_on_a_cpu():
        # XLA's own convolution on a CPU takes 1.4 to 2.7 times as long as its product does.
        return ops.matmul(images[:, :: strides[0], :: strides[1]], kernel[0, 0])
    return ops.conv(images, kernel, strides=strides, data_format="channels_last")


def max_pool(images, window, strides):
    """The maximum of every window of images `(B, H, W, C)`, without padding."""
    if BACKEND == "torch":
        if torch_images.prefers_own_forms(images):
            return torch_images.max_pool(images, window, strides)
    return ops.max_pool(images, window, strides=strides, data_format="channels_last")


def group_norm(images, groups, gamma, beta, epsilon):
    """gamma (x - mean) / sqrt(variance + epsilon) + beta, with the moments of groups of channels.

    Args:
        images: Float tensor `(B, H, W, C)`.
        groups: Integer G that divides C.
        gamma, beta: Float tensors `(C,)`.
        epsilon: Float.

    Returns:
        Float tensor `(B, H, W, C)`.
    """
    if BACKEND == "torch":
        if torch_images.prefers_own_group_norm(images, gamma, beta):
            return torch_images.group_norm(images, groups, gamma, beta, epsilon)
    x = images - _group_means(images, groups)
    variance = _group_means(ops.square(x), groups)
    return x * (ops.rsqrt(variance + epsilon) * gamma) + beta


def _group_means(images, groups):
    """Means over the image and each group of channels, `(B, 1, 1, C)`.

    Over the image first: with all channels in a row, XLA sums them side by side, where the few of
    one group leave most of a vector empty. 18 in place of 80 ms for 8 images (112, 112, 64) in JAX.
    """
    channels = images.shape[-1]
    means = ops.mean(images, axis=(1, 2))
    means = ops.mean(ops.reshape(means, (-1, groups, channels // groups)), axis=-1)
    return ops.reshape(ops.repeat(means, channels // groups, axis=1), (-1, 1, 1, channels))
