"""Numbers from outside: SciPy's zoom, torch's interpolate, TensorFlow's resize, and the goldens.

SciPy and torch are compared live where they are installed; constants computed with them hold the
same claims where they are not.
"""

import itertools
import json
import pathlib

import numpy as np
import pytest

from keras_vit.models import resample

GOLDENS = pathlib.Path(__file__).parent.parent / "goldens"
HALF_PIXEL = ("bicubic", "bicubic_antialias")
SIZES = range(1, 21)


def random(*shape, dtype="float64"):
    return np.random.default_rng(7).normal(size=shape).astype(dtype)


def golden(name):
    """The configuration, the table before and the table after of a golden set."""
    config = json.loads((GOLDENS / f"{name}.json").read_text())
    expected = np.load(GOLDENS / f"{name}.expected.npz")["resized_pos_embedding"]
    if (GOLDENS / f"{name}.npz").exists():
        table = np.load(GOLDENS / f"{name}.npz")["Transformer/posembed_input/pos_embedding"]
    else:
        table = read_safetensors(GOLDENS / f"{name}.safetensors", "pos_embed")
    return config, table, expected


def read_safetensors(path, key):
    """One float32 tensor; the format is a length, a JSON header, and the bytes."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:start])[key]
    begin, end = entry["data_offsets"]
    return np.frombuffer(data[start + begin : start + end], "<f4").reshape(entry["shape"])


def by_interp(values, coordinates):
    """NumPy's own linear interpolation along axis 0, clamped at the ends."""
    flat = values.reshape(len(values), -1)
    columns = [np.interp(coordinates, np.arange(len(values)), column) for column in flat.T]
    return np.stack(columns, axis=-1).reshape(-1, *values.shape[1:])


# --- Against the reference implementations -----------------------------------------------------


@pytest.mark.parametrize(
    "name, prefix, method",
    [
        ("vit_token", 1, "bilinear"),
        ("vit_gap", 0, "bilinear"),
        ("timm_vit_token", 1, "bicubic_antialias"),
    ],
)
def test_goldens(name, prefix, method):
    config, table, expected = golden(name)
    old, new = (
        tuple(np.array(config[key]) // config["patch_size"]) for key in ("image_size", "resize")
    )
    result = resample.resample_positions(table, old, new, prefix, method)
    assert result.shape == expected.shape and result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, atol=1e-6)


# The second line is of pairs where scipy's default mode writes zeros at the border.
@pytest.mark.parametrize(
    "old, new",
    [(14, 24), (7, 12), (24, 14), (16, 37), (1, 5), (2, 3)]
    + [(28, 48), (28, 14), (24, 22), (24, 42), (32, 16), (8, 26)],
)
def test_bilinear_is_scipy_zoom(old, new):
    ndimage = pytest.importorskip("scipy.ndimage")
    grid = random(old, 5, 2)
    expected = ndimage.zoom(grid, (new / old, 7 / 5, 1), order=1, mode="nearest")
    result = resample.resample_positions(grid.reshape(-1, 2), (old, 5), (new, 7))
    np.testing.assert_allclose(result.reshape(new, 7, 2), expected, atol=1e-12)


@pytest.mark.parametrize("method", HALF_PIXEL)
@pytest.mark.parametrize(
    "old, new",
    [*itertools.product([(1, 6), (5, 9), (14, 14), (24, 7)], [(3, 4), (14, 5), (30, 24)])],
)
def test_bicubics_are_torch_interpolate(old, new, method):
    torch = pytest.importorskip("torch")
    grid = random(*old, 3)
    expected = torch.nn.functional.interpolate(
        torch.from_numpy(grid).permute(2, 0, 1)[None],
        size=new,
        mode="bicubic",
        antialias=method == "bicubic_antialias",
        align_corners=False,
    )[0].permute(1, 2, 0)
    result = resample.resample_positions(grid.reshape(-1, 3), old, new, method=method)
    np.testing.assert_allclose(result.reshape(*new, 3), expected.numpy(), atol=1e-12)


# torch 2.13 on [0, 1, 4, 9, 16, 25, 36, -7] as float64. It was given two equal columns: with one,
# its antialiased resize repeats the first row, a defect that is not followed.
TORCH = {
    ("bicubic", 1): [12.125],
    ("bicubic", 3): [0.596064815, 12.125, 30.783564815],
    ("bicubic", 5): [0.13725, 3.457, 12.125, 26.739, 5.51675],
    ("bicubic", 11): [-0.076281931, 0.280498685, 1.747464313, 4.26080015, 7.360725019, 12.125]
    + [18.21309166, 24.348328325, 37.953136739, 20.060034748, -10.280123028],
    ("bicubic_antialias", 1): [11.399331784],
    ("bicubic_antialias", 3): [1.035793522, 14.23593694, 19.354237539],
    ("bicubic_antialias", 5): [0.155900923, 3.647625448, 12.18772311, 28.476926523, 10.356159948],
    ("bicubic_antialias", 11): [-0.056102362, 0.379838024, 1.737603306, 4.183884298, 7.688016529]
    + [12.25, 17.869834711, 24.547520661, 36.424680691, 18.86097812, -9.412401575],
}


@pytest.mark.parametrize("method, new", TORCH)
def test_bicubic_constants(method, new):
    table = np.array([[0.0, 1, 4, 9, 16, 25, 36, -7]])
    result = resample.resample_axis(table, 8, new, method, axis=1)
    np.testing.assert_allclose(result[0], TORCH[method, new], atol=1e-8)


def test_bilinear_constants():
    # By hand: 3 -> 5 halves each step, 5 -> 3 takes every second sample.
    np.testing.assert_array_equal(
        resample.resample_axis(np.array([0.0, 1, 4]), 3, 5), [0, 0.5, 1, 2.5, 4]
    )
    np.testing.assert_array_equal(
        resample.resample_axis(np.array([0.0, 1, 4, 9, 16]), 5, 3), [0, 4, 16]
    )


# --- Grids -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", resample.METHODS)
def test_every_grid_pair_gives_the_exact_target(method):
    for old, new in itertools.product(SIZES, SIZES):
        # Square to square, and a rectangle to its transpose; a constant must stay a constant.
        for old_grid, new_grid in (((old, old), (new, new)), ((old, new), (new, old))):
            table = np.ones((1, 1 + old_grid[0] * old_grid[1], 1), "float32")
            result = resample.resample_positions(table, old_grid, new_grid, 1, method)
            assert result.shape == (1, 1 + new_grid[0] * new_grid[1], 1)
            np.testing.assert_allclose(result, 1, atol=1e-6)


@pytest.mark.parametrize("method", resample.METHODS)
@pytest.mark.parametrize("old, new", [((3, 8), (9, 4)), ((8, 3), (4, 9)), ((2, 8), (8, 2))])
def test_rows_stay_rows(old, new, method):
    rows, columns = np.indices(old).astype(float)
    table = np.stack([rows, columns], axis=-1).reshape(-1, 2)
    result = resample.resample_positions(table, old, new, method=method).reshape(*new, 2)
    np.testing.assert_allclose(result[..., 0], np.repeat(result[:, :1, 0], new[1], 1), atol=1e-12)
    np.testing.assert_allclose(result[..., 1], np.repeat(result[:1, :, 1], new[0], 0), atol=1e-12)
    assert np.all(np.diff(result[:, 0, 0]) > 0) and np.all(np.diff(result[0, :, 1]) > 0)


def test_equal_token_counts_are_resampled():
    grid = random(2, 8, 3)
    result = resample.resample_positions(grid.reshape(-1, 3), (2, 8), (4, 4)).reshape(4, 4, 3)
    expected = by_interp(grid, np.linspace(0, 1, 4)).transpose(1, 0, 2)
    expected = by_interp(expected, np.linspace(0, 7, 4)).transpose(1, 0, 2)
    np.testing.assert_allclose(result, expected, atol=1e-12)


@pytest.mark.parametrize("method", resample.METHODS)
def test_equal_grids_give_an_exact_copy(method):
    table = random(1, 1 + 3 * 5, 4, dtype="float32")
    result = resample.resample_positions(table, (3, 5), [3, 5], 1, method)
    np.testing.assert_array_equal(result, table)
    assert not np.shares_memory(result, table)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_doubling_and_back_is_exact(dtype):
    table = random(14 * 14, 6, dtype=dtype)
    larger = resample.resample_positions(table, (14, 14), (27, 27))
    np.testing.assert_array_equal(
        resample.resample_positions(larger, (27, 27), (14, 14)), table, strict=True
    )


def test_the_border_is_not_zeroed():
    table = np.ones((28 * 28, 2), "float32")
    result = resample.resample_positions(table, (28, 28), (48, 48))
    np.testing.assert_array_equal(result, np.ones((48 * 48, 2), "float32"))


def test_the_corners_stay_the_corners():
    grid = random(5, 6, 2)
    for new in itertools.product((2, 3, 7, 48), repeat=2):
        result = resample.resample_positions(grid.reshape(-1, 2), (5, 6), new).reshape(*new, 2)
        np.testing.assert_array_equal(result[::-1, ::-1][:1, :1], grid[-1:, -1:])
        np.testing.assert_array_equal(result[:1, :1], grid[:1, :1])


def test_one_patch_is_the_centre():
    result = resample.resample_axis(np.array([1.0, 2, 4, 64]), 4, 1)
    np.testing.assert_array_equal(result, [3])  # Between the middle two, not the first.
    ramp = np.arange(9.0)
    for method in resample.METHODS:
        np.testing.assert_allclose(resample.resample_axis(ramp, 9, 1, method), [4], atol=1e-12)
        np.testing.assert_allclose(resample.resample_axis(ramp[3:4], 1, 4, method), 3, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_prefix_and_dtype_are_kept(dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    table = random(1, 3 + 4 * 6, 5, dtype=dtype)
    table[0, 0] = [np.nan, np.inf, -0.0, 1e-6, 3.0]
    result = resample.resample_positions(table, (4, 6), (5, 3), 3, "bicubic")
    assert result.dtype == table.dtype and result.shape == (1, 3 + 15, 5)
    assert result[:, :3].tobytes() == table[:, :3].tobytes()
    exact = resample.resample_positions(
        table[:, 3:].astype("float64"), (4, 6), (5, 3), 0, "bicubic"
    )
    np.testing.assert_array_equal(result[:, 3:], exact.astype(dtype))


# --- Learned rows and columns, relative offsets ------------------------------------------------


@pytest.mark.parametrize("method", resample.METHODS)
def test_axes_build_the_grid(method):
    grid = random(4, 7, 3)
    rows = resample.resample_axis(grid, 4, 6, method, axis=0)
    both = resample.resample_axis(rows, 7, 5, method, axis=-2)
    expected = resample.resample_positions(grid.reshape(-1, 3), (4, 7), (6, 5), 0, method)
    np.testing.assert_allclose(both.reshape(-1, 3), expected, atol=1e-12)


@pytest.mark.parametrize("method", resample.METHODS)
@pytest.mark.parametrize("old, new", [((7, 5), (12, 9)), ((4, 9), (9, 6)), ((14, 14), (7, 24))])
def test_offsets_are_differences_of_resampled_positions(old, new, method):
    def differences(rows, columns):
        """`table[gh - 1 + i - i', gw - 1 + j - j']` from evenly spaced positions."""
        row = np.diff(rows).mean() * np.arange(1 - len(rows), len(rows))
        column = np.diff(columns).mean() * np.arange(1 - len(columns), len(columns))
        return np.stack(np.meshgrid(row, column, indexing="ij"), axis=-1)

    positions = [np.arange(float(size)) for size in old]
    result = resample.resample_relative(differences(*positions), old, new, method)
    sizes = list(zip(old, new, strict=True))
    if method == "bilinear":
        moved = [resample.resample_axis(np.arange(float(o)), o, n) for o, n in sizes]
        inner = slice(None), slice(None)
    else:
        # Half-pixel positions are (i + 0.5) gh / gh' - 0.5; cubics bend ramps near the border.
        moved = [(np.arange(n) + 0.5) * o / n - 0.5 for o, n in sizes]
        inner = tuple(
            slice(cut, -cut) for cut in (int(np.ceil(3 * max(1, n / o))) for o, n in sizes)
        )
    # The cubic with a = -0.75 does not keep ramps straight: up to 3 / 64 of a step between samples.
    tolerance = 3.1 / 64 if method == "bicubic" else 1e-12
    np.testing.assert_allclose(result[inner], differences(*moved)[inner], rtol=0, atol=tolerance)


@pytest.mark.parametrize("method", resample.METHODS)
def test_offset_zero_stays_at_the_centre(method):
    table = random(7, 9, 2)
    for new in itertools.product((1, 2, 5, 11), repeat=2):
        result = resample.resample_relative(table, (4, 5), new, method)
        assert result.shape == (2 * new[0] - 1, 2 * new[1] - 1, 2)
        if method != "bicubic_antialias" or new == (5, 11):  # Antialiasing averages neighbours.
            np.testing.assert_allclose(result[new[0] - 1, new[1] - 1], table[3, 4], atol=1e-12)
        mirrored = resample.resample_relative(table[::-1, ::-1], (4, 5), new, method)
        np.testing.assert_allclose(mirrored, result[::-1, ::-1], atol=1e-12)


@pytest.mark.parametrize("method", resample.METHODS)
def test_relative_constants_and_copies(method):
    for old, new in itertools.product(SIZES, SIZES):
        table = np.ones((2 * old - 1, 2 * new - 1, 1), "float32")
        result = resample.resample_relative(table, (old, new), (new, old), method)
        assert result.shape == (2 * new - 1, 2 * old - 1, 1)
        np.testing.assert_allclose(result, 1, atol=1e-6)
    table = random(5, 3, 2, dtype="float32")
    copy = resample.resample_relative(table, (3, 2), (3, 2), method)
    np.testing.assert_array_equal(copy, table)
    assert not np.shares_memory(copy, table)


def test_the_largest_offset_stays_the_largest():
    table = random(5, 7, 2)
    result = resample.resample_relative(table, (3, 4), (6, 9))
    np.testing.assert_array_equal(
        result[[0, 0, -1, -1], [0, -1, 0, -1]], table[[0, 0, -1, -1], [0, -1, 0, -1]]
    )


# --- Patch kernels -----------------------------------------------------------------------------


def resize_image(image, size):
    """Bilinear, half-pixel centres, no antialiasing: `tf.image.resize` on (height, width, ...)."""
    for axis, new in enumerate(size):
        old = image.shape[axis]
        image = np.swapaxes(image, 0, axis)
        image = by_interp(image, (np.arange(new) + 0.5) * old / new - 0.5)
        image = np.swapaxes(image, 0, axis)
    return image


def test_the_image_resize_is_tensorflows():
    # tf.image.resize of TensorFlow 2.21, method="bilinear", antialias=False.
    image = np.array([0.0, 1, 4, 9, 16])[:, None]
    for expected in (
        [0.75, 10.75],
        [0.33333331, 4.0, 13.66666603],
        [0.0, 0.4375, 1.1875, 3.0625, 5.5625, 8.6875, 12.9375, 16.0],
    ):
        result = resize_image(image, (len(expected), 1))
        np.testing.assert_allclose(result[:, 0], expected, atol=1e-6)


@pytest.mark.parametrize(
    "old, new", [((8, 8), (16, 16)), ((7, 5), (9, 12)), ((4, 6), (4, 7)), ((1, 1), (3, 2))]
)
def test_larger_patches_embed_the_same(old, new):
    kernel, patch = random(*old, 3, 10), random(*old, 3)[..., ::-1]
    larger = resample.resample_patch_kernel(kernel, new)
    assert larger.shape == (*new, 3, 10)
    np.testing.assert_allclose(
        np.einsum("hwc,hwcd->d", resize_image(patch, new), larger),
        np.einsum("hwc,hwcd->d", patch, kernel),
        atol=1e-12,
    )


@pytest.mark.parametrize("old, new", [((8, 8), (5, 5)), ((5, 8), (7, 4)), ((8, 5), (4, 7))])
def test_patch_kernel_is_the_pseudo_inverse(old, new):
    kernel = random(*old, 2, 3)
    units = np.eye(old[0] * old[1]).reshape(*old, -1)
    matrix = resize_image(units, new).reshape(new[0] * new[1], -1)
    expected = np.linalg.pinv(matrix.T) @ kernel.reshape(len(matrix.T), -1)
    result = resample.resample_patch_kernel(kernel, new)
    np.testing.assert_allclose(result, expected.reshape(*new, 2, 3), atol=1e-12)


def test_patch_kernel_of_equal_size_is_a_copy():
    kernel = random(4, 6, 3, 2, dtype="float32")
    result = resample.resample_patch_kernel(kernel, (4, 6))
    np.testing.assert_array_equal(result, kernel, strict=True)
    assert not np.shares_memory(result, kernel)
    assert resample.resample_patch_kernel(kernel, (6, 4)).dtype == kernel.dtype


# --- Errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape, grid, prefix",
    [
        ((197, 8), (14, 14), 0),
        ((1, 196, 8), (14, 14), 1),
        ((2, 196, 8), (14, 14), 0),
        ((6,), (2, 3), 0),
    ]
    + [((1, 4, 8), (2, 3), -2)],
)
def test_wrong_row_counts_raise(shape, grid, prefix):
    # Equal grids too: a wrong table must not pass as a copy.
    for new in (grid, (3, 3)):
        with pytest.raises(ValueError, match=r"Received: table.shape=.*Pass the grid"):
            resample.resample_positions(np.zeros(shape), grid, new, prefix)


def test_unknown_methods_raise():
    calls = (
        lambda: resample.resample_positions(np.zeros((4, 2)), (2, 2), (2, 2), 0, "nearest"),
        lambda: resample.resample_axis(np.zeros((4, 2)), 4, 4, "nearest"),
        lambda: resample.resample_relative(np.zeros((3, 3, 2)), (2, 2), (2, 2), "nearest"),
    )
    for call in calls:
        with pytest.raises(ValueError, match="'bilinear', 'bicubic_antialias', 'bicubic'.*nearest"):
            call()


def test_wrong_sizes_and_shapes_raise():
    table = np.zeros((4, 2))
    with pytest.raises(ValueError, match="must be a pair.*Received: new_grid=4"):
        resample.resample_positions(table, (2, 2), 4)
    with pytest.raises(ValueError, match="whole numbers.*Received: new_grid width=0"):
        resample.resample_positions(table, (2, 2), (4, 0))
    with pytest.raises(ValueError, match="not scale factors"):
        resample.resample_axis(table, 4, 6.5)
    with pytest.raises(ValueError, match="entries along axis 1. Received"):
        resample.resample_axis(table, 4, 6, axis=1)
    with pytest.raises(ValueError, match=r"\(3, 5, 'd'\). Received: table.shape=\(5, 3, 2\)"):
        resample.resample_relative(np.zeros((5, 3, 2)), (2, 3), (4, 4))
    with pytest.raises(ValueError, match="Received: kernel.shape"):
        resample.resample_patch_kernel(np.zeros((8, 8, 3)), (16, 16))


def test_dtypes_that_cannot_hold_weights_raise():
    for dtype in ("int32", "V2"):
        with pytest.raises(ValueError, match="floating dtype. Received"):
            resample.resample_positions(np.zeros((4, 2), dtype), (2, 2), (3, 3))
