"""Attention, products of matrices and the tanh GELU in the form that PyTorch computes fastest.

PyTorch multiplies float32 matrices on a CPU by MKL, which does not use AVX-512 on AMD's processors:
100 against oneDNN's 225 GFLOP/s on one core of an EPYC that has it. On an EPYC with AVX2 alone MKL
is the faster by up to a third. Intel's processors were not measured.
"""

import math

import keras
import torch

ONEDNN_IS_THERE = torch.backends.mkldnn.is_available() and hasattr(
    torch.ops.mkldnn, "_linear_pointwise"
)
ONEDNN_IS_FASTER = ONEDNN_IS_THERE and torch.backends.cpu.get_cpu_capability() == "AVX512"


def attention(query, key, value, bias=None):
    """softmax(q k^T + bias) v of `(B, N, h, d)`, by the kernel that PyTorch chooses.

    Keras chooses itself, in a way that PyTorch's compiler cannot follow.
    """
    query, key, value = (tensor.transpose(1, 2) for tensor in (query, key, value))
    heads = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=bias, scale=1.0
    )
    return heads.transpose(1, 2)


def is_float32(layer, tokens):
    """Whether nothing is to be cast."""
    return (
        type(tokens) is torch.Tensor
        and tokens.dtype == torch.float32
        and (layer.compute_dtype == layer.variable_dtype == "float32")
    )


def layer_norm(layer, tokens):
    """Over the last axis."""
    gamma, beta = layer.gamma.value, layer.beta.value
    return torch.nn.functional.layer_norm(tokens, gamma.shape, gamma, beta, layer.epsilon)


def prefers_own_gelu(x):
    """Whether `gelu_tanh` is faster than PyTorch's, which is slow on a CPU as its tanh is.

    It is in inference, 3.2 ms beside 4.6 ms on two cores for a hidden layer of 8 images in
    ViT-S/16, and wherever the compiler makes one loop of it. For gradients without a compiler more
    would have to be kept.
    """
    if not isinstance(x, torch.Tensor) or x.device.type != "cpu" or x.dtype != torch.float32:
        return False
    return not is_exported() and (torch.compiler.is_compiling() or not torch.is_grad_enabled())


def gelu_tanh(x):
    """x * sigmoid(2 u), which is x * (1 + tanh(u)) / 2; u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    linear = 2 * math.sqrt(2 / math.pi)
    cubic = 0.044715 * linear
    if torch.compiler.is_compiling():
        return x * torch.sigmoid(x * (linear + cubic * x * x))
    # In one new tensor: what costs most here is memory that was not used before.
    doubled = torch.addcmul(torch.tensor(linear), x, x, value=cubic).mul_(x)
    return doubled.sigmoid_().mul_(x)


def is_exported():
    """Whether a graph is made for other runtimes, which know PyTorch's common operations only."""
    return torch.compiler.is_exporting() or torch.jit.is_tracing()


def projected(layer, tokens, axes):
    """As `platform.projected`, by PyTorch's own functions.

    Without a compiler, the eight of `keras.ops` that it takes in their place cost one image in
    ViT-Ti/16 14 ms of 56.
    """
    dtype = getattr(torch, layer.compute_dtype)
    tokens = _tensor(tokens, dtype)
    kernel, bias = _tensor(layer.kernel, dtype), _tensor(layer.bias, dtype)
    width = math.prod(kernel.shape[:axes])
    rows = tokens.reshape(-1, width)
    flat = _product_with_bias(rows, kernel.reshape(width, -1), bias.reshape(-1))
    return flat.view(*tokens.shape[: tokens.dim() - axes], *kernel.shape[axes:])


def _tensor(value, dtype):
    if isinstance(value, keras.Variable):
        value = value.value
    elif not isinstance(value, torch.Tensor):
        value = keras.ops.convert_to_tensor(value)
    return value if value.dtype == dtype else value.to(dtype)


def _product_with_bias(rows, kernel, bias):
    """In one pass, where Keras's layers take a second one for the bias."""
    on_cpu = rows.device.type == "cpu" and rows.dtype == torch.float32
    if ONEDNN_IS_FASTER and on_cpu and not is_exported():
        from keras_vit.layers import torch_onednn  # a tenth of a second

        return torch_onednn.product(rows, kernel, bias)
    return torch.addmm(bias, rows, kernel)
