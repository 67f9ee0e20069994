"""Padding, convolution, pooling and group norm of channels-last images, as is fastest on PyTorch.

Keras copies images to channels-first and back for each convolution and each pooling. PyTorch takes
channels-last images as they are, by views with the axes renamed: of 8 images (56, 56, 256), a
convolution 1 x 1 to 64 channels takes 7 ms on two cores in place of 52.
"""

import torch
from torch.nn import functional

from keras_vit.layers.torch_forms import is_exported


def prefers_own_forms(images):
    """Whether the functions here take the place of Keras's.

    Not in graphs for other runtimes, and not where PyTorch's compiler leaves the size of images
    open: it fails to lower a convolution of views with the axes renamed there (PyTorch 2.13). The
    models here have fixed sizes.
    """
    if is_exported():
        return False
    if not torch.compiler.is_compiling():
        return True
    from torch.fx.experimental.symbolic_shapes import has_static_value

    return all(has_static_value(size) for size in images.shape[1:3])


def padded(images, border, value=0.0):
    """As `platform.padded`. PyTorch's compiler cannot follow Keras's, and cuts the model there."""
    (top, bottom), (left, right) = border
    return functional.pad(images, (0, 0, left, right, top, bottom), value=value)


def convolved(images, kernel, strides, border):
    """As `platform.convolved`."""
    (top, bottom), (left, right) = border
    if (top, left) != (bottom, right):
        images = padded(images, border)
        top = left = 0
    images = functional.conv2d(
        _renamed(images), kernel.permute(3, 2, 0, 1), stride=strides, padding=(top, left)
    )
    return images.permute(0, 2, 3, 1)


def max_pool(images, window, strides):
    """As `platform.max_pool`."""
    return functional.max_pool2d(_renamed(images), window, strides).permute(0, 2, 3, 1)


def prefers_own_group_norm(images, gamma, beta):
    """Whether PyTorch's operation is the faster one, as it is on a CPU.

    It takes 15 in place of 64 ms for 8 images (56, 56, 256) on two busy cores, and as long as the
    parts for 14 x 14 of 1,024 channels.

    Its gradient crashes the process where factors need one and channels-last images need none
    (PyTorch 2.13), as behind frozen layers.
    """
    trained = torch.is_grad_enabled() and (gamma.requires_grad or beta.requires_grad)
    if trained and not images.requires_grad:
        return False
    return images.device.type == "cpu" and prefers_own_forms(images)


def group_norm(images, groups, gamma, beta, epsilon):
    """As `platform.group_norm`.

    PyTorch takes the variance of channels-last images as E[x^2] - E[x]^2, which loses its digits
    where the mean is large beside the deviation. So a rough mean, that of about 64 pixels, is taken
    off first; the result does not depend on it, and neither does any gradient.
    """
    moved = images - _rough_means(images.detach(), groups)
    return functional.group_norm(_renamed(moved), groups, gamma, beta, epsilon).permute(0, 2, 3, 1)


def _rough_means(images, groups):
    """Of each group, from every eighth of the rows and columns, `(B, 1, 1, C)`."""
    batch, height, width, channels = images.shape
    sample = images[:, :: max(1, height // 8), :: max(1, width // 8)]
    means = sample.reshape(batch, -1, groups, channels // groups).mean((1, 3))
    return means.repeat_interleave(channels // groups, dim=1).reshape(batch, 1, 1, channels)


def _renamed(images):
    """(B, H, W, C) as the (B, C, H, W) that PyTorch names so, without a copy."""
    return images.permute(0, 3, 1, 2)
