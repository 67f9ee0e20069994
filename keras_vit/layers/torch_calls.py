"""How a layer calls its own parts on PyTorch."""

import torch


def needs_no_preparation(part, tensors):
    """Whether Keras would find nothing to convert, to build or to add in a call of this part."""
    dtype = getattr(torch, part.compute_dtype)
    return (
        part.built
        and part.activity_regularizer is None
        and all(type(tensor) is torch.Tensor and tensor.dtype == dtype for tensor in tensors)
    )


def call_module(part, tensors, arguments):
    """The call of a module: PyTorch's hooks, then the layer's `call`, quantized or not."""
    return torch.nn.Module.__call__(part, *tensors, **arguments)
