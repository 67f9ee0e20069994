"""Checks of arguments that several layers and builders share, in one voice."""

import numbers


def pair(value, name):
    """`value` as `(height, width)` of positive integers; a single integer stands for both."""
    sizes = (value, value) if isinstance(value, numbers.Integral) else value
    if (
        isinstance(sizes, (str, bytes))
        or not hasattr(sizes, "__len__")
        or len(sizes) != 2
        or not all(_is_integer(size) and size > 0 for size in sizes)
    ):
        raise ValueError(
            f"`{name}` must be a positive integer or a pair `(height, width)` of them. "
            f"Received: {name}={value!r}"
        )
    return tuple(int(size) for size in sizes)


def odd_pair(value, name):
    """`value` as `(height, width)` of odd integers: windows that have a middle."""
    sizes = pair(value, name)
    if not all(size % 2 for size in sizes):
        raise ValueError(f"`{name}` must be odd. Received: {name}={value!r}")
    return sizes


def positive_integer(value, name, minimum=1):
    """`value` as an integer that is at least `minimum`."""
    if not _is_integer(value) or value < minimum:
        raise ValueError(
            f"`{name}` must be an integer of at least {minimum}. Received: {name}={value!r}"
        )
    return int(value)


def number(value, name):
    """`value` as a float."""
    if not _is_real(value):
        raise ValueError(f"`{name}` must be a number. Received: {name}={value!r}")
    return float(value)


def positive_number(value, name):
    """`value` as a float above 0."""
    if not _is_real(value) or not value > 0:
        raise ValueError(f"`{name}` must be a positive number. Received: {name}={value!r}")
    return float(value)


def rate(value, name):
    """`value` as a float in [0, 1), the share that a dropout removes."""
    if not _is_real(value) or not 0 <= value < 1:
        raise ValueError(
            f"`{name}` must be a number from 0 up to, but not including, 1. "
            f"Received: {name}={value!r}"
        )
    return float(value)


def one_of(value, name, choices):
    """`value`, if it is among `choices`."""
    if isinstance(value, (list, dict, set)) or value not in choices:
        raise ValueError(
            f"`{name}` must be one of {', '.join(repr(choice) for choice in choices)}. "
            f"Received: {name}={value!r}"
        )
    return value


def boolean(value, name):
    """`value`, if it is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"`{name}` must be True or False. Received: {name}={value!r}")
    return value


def head_width(hidden_dim, num_heads):
    """The width of one attention head, `hidden_dim / num_heads`."""
    if hidden_dim % num_heads:
        below = hidden_dim - hidden_dim % num_heads
        nearest = " and ".join(str(size) for size in (below, below + num_heads) if size)
        raise ValueError(
            "`hidden_dim` must be a multiple of `num_heads`. "
            f"Received: hidden_dim={hidden_dim}, num_heads={num_heads}. "
            f"The nearest widths for {num_heads} heads are {nearest}."
        )
    return hidden_dim // num_heads


def patch_grid(image_size, patch_size):
    """The `(rows, columns)` of patches that exactly cover an image.

    Raises:
        ValueError: if a side of the image is not a multiple of the patch's, naming the axis and
            the nearest sizes that are.
    """
    for axis, size, patch in zip(("height", "width"), image_size, patch_size, strict=True):
        if size % patch:
            below = size - size % patch
            nearest = " and ".join(str(valid) for valid in (below, below + patch) if valid)
            raise ValueError(
                f"The image {axis} must be a multiple of the patch {axis}. "
                f"Received: image_size={tuple(image_size)}, patch_size={tuple(patch_size)}. "
                f"The nearest {axis}s for a patch of {patch} are {nearest}."
            )
    return image_size[0] // patch_size[0], image_size[1] // patch_size[1]


def image_shape(shape):
    """`shape` as `(batch, height, width, channels)`, all but the batch known."""
    if len(shape) != 4 or None in shape[1:]:
        raise ValueError(
            "Images must be `(batch, height, width, channels)` with known height, width and "
            f"channels. Received: shape={tuple(shape)}"
        )
    return tuple(shape)


def token_shape(shape):
    """`shape` as `(batch, number, width)`, the width known."""
    if len(shape) != 3 or shape[2] is None:
        raise ValueError(
            "Tokens must be `(batch, number, width)` with a known width. "
            f"Received: shape={tuple(shape)}"
        )
    return tuple(shape)


def _is_real(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_integer(value):
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
