"""How many pixels images are padded by, the same on every backend and for every size."""

PADDINGS = ("same", "symmetric")


def pads(size, window, stride, padding):
    """How many pixels go `(before, after)` one axis of an image.

    `"same"` is TensorFlow's, which the paper's code uses: just enough for `ceil(size / stride)`
    windows, the odd pixel after. At stride 2 it depends on the size, a window of 3 pads (0, 1) on
    even sizes and (1, 1) on odd ones. `"symmetric"` is `window // 2` on both sides, as in PyTorch;
    at stride 2 on even sizes it sees the image half a pixel further up and left.
    """
    if padding == "symmetric":
        return window // 2, window // 2
    total = max((num_windows(size, stride) - 1) * stride + window - size, 0)
    return total // 2, total - total // 2


def num_windows(size, stride):
    """How many windows of odd size fit with either padding: ceil(size / stride)."""
    return -(-size // stride)


def image_pads(images, window, strides, padding):
    """`pads` of the height and of the width of images (B, H, W, C)."""
    return tuple(
        pads(size, side, stride, padding)
        for size, side, stride in zip(images.shape[1:3], window, strides, strict=True)
    )
