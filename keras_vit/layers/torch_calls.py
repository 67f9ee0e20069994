"""How a layer or a model calls its own parts on PyTorch."""

import torch


def needs_no_preparation(caller, part, tensors):
    """Whether Keras would find nothing left to do within a call of the caller.

    That is nothing to convert or to build, no other scope of dtypes and no loss to add.
    """
    dtype = getattr(torch, part.compute_dtype)
    return (
        part.built
        and part.dtype_policy == caller.dtype_policy
        and part.activity_regularizer is None
        and all(type(tensor) is torch.Tensor and tensor.dtype == dtype for tensor in tensors)
    )


def call_module(part, tensors, arguments):
    """The call of a module: PyTorch's hooks, then the layer's `call`, quantized or not."""
    return torch.nn.Module.__call__(part, *tensors, **arguments)
