"""Resampling of position tables and patch kernels when the patch grid or the patch size changes.

Every resize of a grid is separable, so it is two small matrices, `A_h X A_w^T`. They are built and
applied in float64 with NumPy alone: the result is the same on every backend, works for non-square
grids, and nothing is left to compute in the model. Grids are always whole numbers of patches;
there is no scale factor that could round to one patch too few.

Methods for position tables:

- `"bilinear"`: corner-aligned, so the outermost patches stay the outermost patches. This is what
  the paper's code does with `scipy.ndimage.zoom(order=1)`, except at the border: for some sizes
  (28 -> 48 is one) scipy rounds the last sample to just outside and fills it with zeros. Here the
  border is clamped.
- `"bicubic_antialias"`: half-pixel centres, cubic filter with a = -0.5 that widens when the grid
  shrinks and is cut off at the border. This is timm's, `torch.nn.functional.interpolate` with
  `antialias=True`, except for a new grid one patch wide: there torch 2.13 repeats the first row.
- `"bicubic"`: half-pixel centres, cubic with a = -0.75 on four samples, border repeated. This is
  Hugging Face's.

A grid of one patch along an axis: from one patch every method gives a constant. To one patch every
method samples around the centre of the image, which is what that patch shows; corner alignment
does not define that case, and scipy would take the first patch, the top or left edge.

Shapes: `gh` x `gw` patch grid, `P` prefix tokens, `D` hidden size, `d` head size, `ph` x `pw` patch
size, `C` channels.
"""

import numpy as np

METHODS = ("bilinear", "bicubic_antialias", "bicubic")


def resample_positions(
    table: np.ndarray,
    old_grid: tuple[int, int],
    new_grid: tuple[int, int],
    prefix: int = 0,
    method: str = "bilinear",
) -> np.ndarray:
    """Resamples a table of learned positions to another patch grid.

    Only equal grids are copied. Two grids with the same number of patches, as 2 x 8 and 4 x 4,
    are different tables.

    Args:
        table: Array of shape `(1, prefix + gh * gw, D)` or `(prefix + gh * gw, D)`; patches are
            in row-major order.
        old_grid: `(gh, gw)` of `table`.
        new_grid: `(gh, gw)` of the result.
        prefix: Rows before the patches (class token, registers). They are kept bit for bit.
        method: One of `METHODS`.

    Returns:
        Array of the same rank and dtype for `new_grid`.

    Example:

    >>> table = np.random.normal(size=(1, 1 + 14 * 14, 768))
    >>> resample_positions(table, (14, 14), (24, 32), prefix=1).shape
    (1, 769, 768)
    """
    table = _floating(table)
    old_grid, new_grid = _pair("old_grid", old_grid), _pair("new_grid", new_grid)
    _check_method(method)
    _check_rows(table, old_grid, prefix)
    if old_grid == new_grid:
        return table.copy()
    width = table.shape[-1]
    grid = table[..., prefix:, :].reshape(*old_grid, width)
    matrices = _per_axis(_axis_matrix, old_grid, new_grid, method)
    patches = _apply(matrices, grid).reshape(*table.shape[:-2], -1, width)
    return np.concatenate([table[..., :prefix, :], patches], axis=-2)


def resample_axis(
    table: np.ndarray, old: int, new: int, method: str = "bilinear", axis: int = 0
) -> np.ndarray:
    """Resamples one axis of a table, as the rows or the columns of `"learned_2d"` positions.

    Args:
        table: Array whose `axis` has `old` entries, as `(gh, D / 2)`.
        old: Number of patches along the axis.
        new: Number of patches wanted.
        method: One of `METHODS`.
        axis: The axis to resample.

    Returns:
        Array of the same dtype with `new` entries along `axis`.
    """
    table = _floating(table)
    _check_method(method)
    _check_size("old", old)
    _check_size("new", new)
    if table.shape[axis] != old:
        raise ValueError(
            f"`table` must have `old` entries along axis {axis}. Received: "
            f"table.shape={table.shape}, old={old}. Pass the size that the table was made for."
        )
    if old == new:
        return table.copy()
    return _apply({axis: _axis_matrix(old, new, method)}, table)


def resample_relative(
    table: np.ndarray,
    old_grid: tuple[int, int],
    new_grid: tuple[int, int],
    method: str = "bilinear",
) -> np.ndarray:
    """Resamples a table of relative positions, offsets between patches, to another patch grid.

    An offset is the difference of two positions, and the image stays the same while its grid
    changes. So offsets stretch by the slope of the map that the method uses for positions, around
    offset zero, which stays at the centre: by `(gh - 1) / (gh' - 1)` when corner-aligned, which
    takes the largest offset `gh' - 1` to the largest offset `gh - 1`, and by `gh / gh'` for
    half-pixel centres. Resampling the table as if it were an image of `2 gh - 1` pixels would
    give the half-pixel methods another slope, one that fits no pair of patches. With theirs the
    outermost new offsets can lie beyond the table by less than a patch; they take its edge.

    Args:
        table: Array of shape `(2 gh - 1, 2 gw - 1, d)`.
        old_grid: `(gh, gw)` of `table`.
        new_grid: `(gh, gw)` of the result.
        method: One of `METHODS`.

    Returns:
        Array of the same dtype for `new_grid`.
    """
    table = _floating(table)
    old_grid, new_grid = _pair("old_grid", old_grid), _pair("new_grid", new_grid)
    _check_method(method)
    wanted = tuple(2 * size - 1 for size in old_grid)
    if table.ndim != 3 or table.shape[:2] != wanted:
        raise ValueError(
            f"`table` must have the shape (2 gh - 1, 2 gw - 1, d), here {(*wanted, 'd')}. "
            f"Received: table.shape={table.shape}, old_grid={old_grid}. "
            "Pass the grid that the table was made for."
        )
    return _apply(_per_axis(_offset_matrix, old_grid, new_grid, method), table)


def resample_patch_kernel(kernel: np.ndarray, new_size: tuple[int, int]) -> np.ndarray:
    """Resizes a patch embedding kernel to another patch size by FlexiViT's pseudo-inverse resize.

    Let `B` be the bilinear resize (half-pixel centres, no antialiasing) that takes an old patch
    to a new one. The new kernel `pinv(B^T) w` is the least-squares solution of `B^T w' = w`.
    When no side shrinks the equation holds, so embedding the enlarged patch gives exactly the old
    embedding: `(B x) . w' = x . w`. When a side shrinks it is the closest kernel for white patches.

    `B` is the Kronecker product of its two axes and so is its pseudo-inverse, hence two small
    matrices instead of one of `ph' pw'` by `ph pw`.

    Reference: [FlexiViT](https://arxiv.org/abs/2212.08013), section 3.4.

    Args:
        kernel: Array of shape `(ph, pw, C, D)`.
        new_size: The new `(ph, pw)`.

    Returns:
        Array of shape `(ph', pw', C, D)` and the same dtype.
    """
    kernel = _floating(kernel, "kernel")
    new_size = _pair("new_size", new_size)
    if kernel.ndim != 4:
        raise ValueError(
            "`kernel` must have the shape (patch height, patch width, channels, hidden_dim). "
            f"Received: kernel.shape={kernel.shape}. Pass the kernel of the patch convolution."
        )
    return _apply(_per_axis(_patch_matrix, kernel.shape[:2], new_size), kernel)


# --- The weight matrices: new samples by old samples -------------------------------------------


def _axis_matrix(old, new, method):
    """Weights `(new, old)` that resample positions along one axis."""
    if method == "bilinear":
        return _weights(_corner_aligned(old, new), old, method)
    return _weights(_half_pixel(old, new), old, method, stride=old / new)


def _offset_matrix(old, new, method):
    """Weights `(2 new - 1, 2 old - 1)` that resample offsets between the patches of one axis."""
    offsets = np.arange(1 - new, new)
    if method == "bilinear":
        # For a single new patch the only offset is zero, whatever the slope.
        offsets = offsets * (old - 1) / max(new - 1, 1)
    else:
        offsets = offsets * old / new
    coordinates = np.clip(offsets, 1 - old, old - 1) + (old - 1)
    return _weights(coordinates, 2 * old - 1, method, stride=old / new)


def _patch_matrix(old, new):
    """Weights `(new, old)` that resize one side of a patch kernel: `pinv(B^T)`."""
    bilinear = _interpolation(_half_pixel(old, new), old, _triangle, reach=1)
    return np.linalg.pinv(bilinear.T)


def _corner_aligned(old, new):
    """Old coordinates of the new samples, first on first and last on last."""
    if new == 1:
        return np.array([(old - 1) / 2])
    # One product of whole numbers, one division: the last is `old - 1` exactly, never beyond it.
    return np.arange(new) * (old - 1) / (new - 1)


def _half_pixel(old, new):
    """Old coordinates of the new samples when both grids cover the same image edge to edge."""
    return (np.arange(new) + 0.5) * old / new - 0.5


def _weights(coordinates, size, method, stride=1.0):
    """Weights `(len(coordinates), size)` of `method` at fractional `coordinates`."""
    if method == "bilinear":
        return _interpolation(coordinates, size, _triangle, reach=1)
    if method == "bicubic":
        return _interpolation(coordinates, size, _cubic_sharp, reach=2)
    return _filtering(coordinates, size, _cubic_soft, stride)


def _interpolation(coordinates, size, kernel, reach):
    """Weighs the `2 * reach` nearest samples; those beyond the border repeat its sample."""
    matrix = np.zeros((len(coordinates), size))
    floors = np.floor(coordinates).astype(int)
    for tap in range(1 - reach, 1 + reach):
        columns = np.clip(floors + tap, 0, size - 1)
        # A clamped column can come up in several taps, which add up.
        matrix[np.arange(len(matrix)), columns] += kernel(coordinates - (floors + tap))
    return matrix


def _filtering(coordinates, size, kernel, stride):
    """Weighs all samples under a kernel as wide as a new sample; the border is cut, not repeated.

    `stride` is the distance of new samples in old ones. Below 1 the grid grows, and the kernel
    keeps its own width.
    """
    distances = np.arange(size) - coordinates[:, None]
    matrix = kernel(distances / max(stride, 1.0))
    return matrix / matrix.sum(axis=1, keepdims=True)


def _triangle(x):
    return np.maximum(1.0 - np.abs(x), 0.0)


def _cubic_soft(x):
    """The cubic that torch and Pillow use for antialiasing."""
    return _cubic(x, -0.5)


def _cubic_sharp(x):
    """The cubic that torch uses without antialiasing."""
    return _cubic(x, -0.75)


def _cubic(x, a):
    """Keys' cubic convolution kernel with the slope `a` at distance 1."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = a * (((x - 5) * x + 8) * x - 4)
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


# --- Their application -------------------------------------------------------------------------


def _per_axis(build, old, new, *args):
    """`{axis: build(old, new, *args)}` for the axes whose size changes."""
    sizes = enumerate(zip(old, new, strict=True))
    return {axis: build(o, n, *args) for axis, (o, n) in sizes if o != n}


def _apply(matrices, array):
    """Multiplies axes by matrices, in float64 until the last; returns a new array of its dtype."""
    result = array.astype(np.float64)
    for axis, matrix in matrices.items():
        result = np.moveaxis(np.tensordot(matrix, result, axes=(1, axis)), 0, axis)
    return result.astype(array.dtype)


# --- Checks ------------------------------------------------------------------------------------


def _floating(array, name="table"):
    array = np.asarray(array)
    # bfloat16 is not a NumPy type; ml_dtypes registers it under its name.
    if array.dtype.kind != "f" and array.dtype.name != "bfloat16":
        raise ValueError(
            f"`{name}` must have a floating dtype. Received: {name}.dtype={array.dtype}. "
            "Cast it first; 2-byte void arrays from an `.npz` are bfloat16 and need a view."
        )
    return array


def _pair(name, value):
    if not (isinstance(value, (tuple, list)) and len(value) == 2):
        raise ValueError(
            f"`{name}` must be a pair (height, width). Received: {name}={value!r}. "
            "Give both numbers, also for squares."
        )
    _check_size(f"{name} height", value[0])
    _check_size(f"{name} width", value[1])
    return tuple(int(size) for size in value)


def _check_size(name, size):
    if not isinstance(size, (int, np.integer)) or size < 1:
        raise ValueError(
            f"Sizes must be whole numbers of at least 1. Received: {name}={size!r}. "
            "Give sizes, not scale factors."
        )


def _check_method(method):
    if method not in METHODS:
        raise ValueError(
            f"`method` must be one of {', '.join(map(repr, METHODS))}. Received: method={method!r}."
            " Pass one of these names."
        )


def _check_rows(table, grid, prefix):
    rows, width = prefix + grid[0] * grid[1], table.shape[-1:]
    if prefix < 0 or table.shape not in ((rows, *width), (1, rows, *width)):
        raise ValueError(
            f"`table` must have `prefix` + gh * gw rows, here {prefix} + {grid[0]} * {grid[1]} = "
            f"{rows}, in the shape (rows, D) or (1, rows, D). Received: "
            f"table.shape={table.shape}, old_grid={grid}, prefix={prefix}. Pass the grid and the "
            "number of prefix tokens that the table was made for."
        )
