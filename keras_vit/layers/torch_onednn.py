"""The product of matrices by oneDNN, as an operation of PyTorch.

It calls the one by which PyTorch's compiler uses oneDNN for frozen linear layers, and has gradients
besides.
"""

import torch


def product(rows, kernel, bias):
    """`rows @ kernel + bias` with gradients of first order."""
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
