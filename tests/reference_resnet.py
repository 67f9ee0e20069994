"""The ResNets in plain NumPy float64: stems of hybrids, and BiT.

Written from the equations, knowing nothing of the library; see `reference_vit`. What widely copied
ports do otherwise can be asked for by `Rules`, so that a test can show that a golden notices.

Letters: B images, H x W pixels, C channels, F filters.
"""

import dataclasses

import numpy as np
import reference_vit
from reference_vit import relu, under

GROUPS = 32


@dataclasses.dataclass(frozen=True)
class Rules:
    """The constants of an implementation.

    `root` tells where the epsilon of weight standardisation goes: under the root of the variance,
    or beside it.
    """

    padding: str  # "same" or "symmetric"
    weight_epsilon: float
    root: bool
    norm_epsilon: float
    pool_value: float = -np.inf
    projection_groups: int | None = GROUPS  # None: one a channel


GOOGLE = Rules("same", 1e-5, False, 1e-6)
TIMM = Rules("same", 1e-8, True, 1e-5)
BIT = Rules("symmetric", 1e-10, True, 1e-5)
ORIGINS = {"google": GOOGLE, "timm": TIMM, "huggingface": TIMM}


def pads(size, window, stride, padding):
    """(before, after) along one axis."""
    if padding == "symmetric":
        return (window - 1) // 2, (window - 1) // 2
    outputs = (size + stride - 1) // stride
    needed = max(0, window + (outputs - 1) * stride - size)
    return needed // 2, needed - needed // 2


def windows(x, window, strides, padding, value):
    """(B, H, W, C) -> (B, rows, columns, C, window height, window width), padded with `value`."""
    borders = [
        pads(size, side, stride, padding)
        for size, side, stride in zip(x.shape[1:3], window, strides, strict=True)
    ]
    x = np.pad(x, ((0, 0), *borders, (0, 0)), constant_values=value)
    views = np.lib.stride_tricks.sliding_window_view(x, window, axis=(1, 2))
    return views[:, :: strides[0], :: strides[1]]


def conv(x, kernel, strides=(1, 1), padding="same"):
    """(B, H, W, C) with (h, w, C, F) -> (B, rows, columns, F)."""
    views = windows(x, kernel.shape[:2], strides, padding, 0.0)
    return np.einsum("bijchw,hwcf->bijf", views, kernel, optimize=True)


def max_pool(x, window, strides, padding="same", value=-np.inf):
    return windows(x, window, strides, padding, value).max(axis=(-2, -1))


def standardize(kernel, epsilon, root):
    """Every filter to mean 0 and deviation 1."""
    mean = kernel.mean(axis=(0, 1, 2), keepdims=True)
    variance = ((kernel - mean) ** 2).mean(axis=(0, 1, 2), keepdims=True)
    scale = np.sqrt(variance + epsilon) if root else np.sqrt(variance) + epsilon
    return (kernel - mean) / scale


def group_norm(x, weights, epsilon, groups=GROUPS):
    """(B, H, W, C): each group of channels over the whole image."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height, width, groups, channels // groups)
    mean = x.mean(axis=(1, 2, 4), keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=(1, 2, 4), keepdims=True)
    x = ((x - mean) / np.sqrt(variance + epsilon)).reshape(batch, height, width, channels)
    return x * weights["gamma"] + weights["beta"]


def std_conv(x, kernel, strides, rules):
    kernel = standardize(kernel, rules.weight_epsilon, rules.root)
    return conv(x, kernel, (strides, strides), rules.padding)


def bottleneck(x, weights, strides, rules):
    """The unit of the hybrids: norm and relu after each convolution."""

    def step(y, i, stride=1):
        y = std_conv(y, weights[f"conv{i}/kernel"], stride, rules)
        return group_norm(y, under(weights, f"norm{i}"), rules.norm_epsilon)

    y = relu(step(x, 1))
    y = relu(step(y, 2, strides))
    y = step(y, 3)
    if "conv_proj/kernel" in weights:
        x = std_conv(x, weights["conv_proj/kernel"], strides, rules)
        groups = rules.projection_groups or x.shape[-1]
        x = group_norm(x, under(weights, "norm_proj"), rules.norm_epsilon, groups)
    return relu(x + y)


def preactivation_unit(x, weights, strides, rules):
    """The unit of BiT: norm and relu before each convolution."""

    def step(y, i, stride=1):
        y = relu(group_norm(y, under(weights, f"norm{i}"), rules.norm_epsilon))
        return y, std_conv(y, weights[f"conv{i}/kernel"], stride, rules)

    active, y = step(x, 1)
    _, y = step(y, 2, strides)
    _, y = step(y, 3)
    if "conv_proj/kernel" in weights:
        x = std_conv(active, weights["conv_proj/kernel"], strides, rules)
    return x + y


def stages(x, weights, num_layers, unit, rules):
    """The feature map after every stage."""
    maps = []
    for s, count in enumerate(num_layers, start=1):
        for u in range(1, count + 1):
            strides = 2 if s > 1 and u == 1 else 1
            x = unit(x, under(weights, f"stage_{s}_unit_{u}"), strides, rules)
        maps.append(x)
    return maps


def hybrid_stem(images, weights, num_layers, rules):
    """(B, H, W, C) -> the feature map after the stem and after every stage."""
    x = std_conv(images, weights["stem_conv/kernel"], 2, rules)
    x = relu(group_norm(x, under(weights, "stem_norm"), rules.norm_epsilon))
    x = max_pool(x, (3, 3), (2, 2), rules.padding, rules.pool_value)
    return [x, *stages(x, weights, num_layers, bottleneck, rules)]


def hybrid(spec, weights, images, rules=None):
    """What `reference_vit.forward` returns, and "stem", the feature maps, for a hybrid."""
    weights = {path: np.float64(value) for path, value in weights.items()}
    maps = hybrid_stem(
        np.float64(images), weights, spec["resnet"], rules or ORIGINS[spec["origin"]]
    )
    _, height, width, channels = maps[-1].shape
    transformer = {
        **spec,
        "resnet": None,
        "image_size": (height, width),
        "channels": channels,
    }
    return {**reference_vit.forward(transformer, weights, maps[-1]), "stem": maps}


def bit(num_layers, weights, images, rules=BIT):
    """A dict: "stages", feature maps; "features", normalised; "pre_logits" and "logits"."""
    weights = {path: np.float64(value) for path, value in weights.items()}
    x = std_conv(np.float64(images), weights["stem_conv/kernel"], 2, rules)
    x = max_pool(x, (3, 3), (2, 2), rules.padding, rules.pool_value)
    maps = stages(x, weights, num_layers, preactivation_unit, rules)
    features = relu(group_norm(maps[-1], under(weights, "norm"), rules.norm_epsilon))
    pooled = features.mean(axis=(1, 2))
    logits = reference_vit.dense(pooled, under(weights, "head"))
    return {"stages": maps, "features": features, "pre_logits": pooled, "logits": logits}
