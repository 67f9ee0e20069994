"""Attention and products of matrices in the form that PyTorch computes fastest.

PyTorch multiplies float32 matrices on a CPU by MKL, which on AMD's processors takes its slow paths:
100 against 225 GFLOP/s on one core of an EPYC. The operation that is called here is the one by
which its compiler's frozen linear layers use oneDNN. Intel's processors were not measured.
"""

import torch

AVAILABLE = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def attention(query, key, value, bias=None):
    """softmax(q k^T + bias) v of `(B, N, h, d)`, by the kernel that PyTorch chooses.

    Keras chooses itself, in a way that PyTorch's compiler cannot follow.
    """
    query, key, value = (tensor.transpose(1, 2) for tensor in (query, key, value))
    heads = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=bias, scale=1.0
    )
    return heads.transpose(1, 2)


def is_faster(tokens):
    """Whether oneDNN can and should multiply these tokens.

    Not in a graph that is exported, since other runtimes do not know the operation.
    """
    return (
        AVAILABLE
        and tokens.device.type == "cpu"
        and tokens.dtype == torch.float32
        and not torch.compiler.is_exporting()
        and not torch.jit.is_tracing()
    )


def product(rows, kernel, bias):
    """`rows @ kernel + bias` with gradients of first order, of `(R, K)`, `(K, M)` and `(M,)`."""
    if torch.is_grad_enabled():
        return _Product.apply(rows, kernel, bias)
    return _linear(rows, kernel.t(), bias)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(rows, kernel, bias):
        return _linear(rows, kernel.t(), bias)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        rows, kernel = ctx.saved_tensors
        needs_rows, needs_kernel, needs_bias = ctx.needs_input_grad
        return (
            _linear(gradient, kernel) if needs_rows else None,
            _linear(rows.t(), gradient.t()) if needs_kernel else None,
            gradient.sum(0) if needs_bias else None,
        )


# An operation of our own, since PyTorch's compiler takes this one for frozen weights only.
torch.library.define("keras_vit::linear", "(Tensor rows, Tensor weight, Tensor? bias) -> Tensor")


@torch.library.impl("keras_vit::linear", "cpu")
def _on_cpu(rows, weight, bias):
    return torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")


@torch.library.register_fake("keras_vit::linear")
def _shape_of(rows, weight, bias):
    return rows.new_empty(rows.shape[0], weight.shape[0])


def _linear(rows, weight, bias=None):
    """`rows @ weight.T + bias`."""
    return torch.ops.keras_vit.linear(rows, weight, bias)
