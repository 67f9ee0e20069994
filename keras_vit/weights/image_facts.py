"""What timm and transformers say beside their weights of how images are prepared.

Both resize with Pillow, whose filters are antialiased. What is returned are the fields of
`keras_vit.models.preprocessing.Preprocessing`.
"""

import re
from collections.abc import Mapping

# timm: `timm.data.resolve_data_config`.

TIMM_KEYS = ("mean", "std", "crop_pct", "crop_mode", "interpolation")
TIMM_DEFAULTS = {
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
    "crop_pct": 0.875,
    "crop_mode": "center",
    "interpolation": "bicubic",
}
TIMM_CROPS = ("center", "squash")
METHODS = ("bilinear", "bicubic")


def of_timm(settings: Mapping) -> dict | None:
    """The preparation in a `pretrained_cfg`; None where it says nothing of it.

    Raises:
        ValueError: for a crop or an interpolation that has no counterpart here.
    """
    said = {key: settings[key] for key in TIMM_KEYS if settings.get(key) is not None}
    if not said:
        return None
    said = {**TIMM_DEFAULTS, **said}
    _check("crop_mode", said["crop_mode"], TIMM_CROPS, "config.json")
    _check("interpolation", said["interpolation"], METHODS, "config.json")
    return {
        "mean": tuple(said["mean"]),
        "std": tuple(said["std"]),
        "crop_fraction": said["crop_pct"],
        "crop_mode": said["crop_mode"],
        "resize_method": said["interpolation"],
        "antialias": True,
    }


# transformers: its image processors, whose defaults differ by class.

HALF = {"image_mean": (0.5, 0.5, 0.5), "image_std": (0.5, 0.5, 0.5)}
PILLOW = {2: "bilinear", 3: "bicubic"}
PROCESSORS = {
    "ViT": {"do_center_crop": False, "resample": 2, **HALF},
    "DeiT": {"do_center_crop": True, "resample": 3, **HALF},
    "Bit": {"do_center_crop": True, "resample": 3},
    "ViTHybrid": {"do_center_crop": True, "resample": 3},
    "CLIP": {"do_center_crop": True, "resample": 3},
    "Siglip": {"do_center_crop": False, "resample": 3, **HALF},
}
SIDE_BY_SIDE = ("ViT", "DeiT", "Siglip")  # an integer is both sides; the others' is the shorter


def of_transformers(processor: Mapping) -> dict:
    """The preparation in a `preprocessor_config.json`.

    The factor of the pixels is joined with the rest: (r x - mean) / std of x from 0 to 255 is
    (x / 255 - mean / 255 r) / (std / 255 r).

    Raises:
        ValueError: for a processor or a resampling that has no counterpart here.
    """
    kind = _kind(processor)
    said = {**PROCESSORS[kind], **{k: v for k, v in processor.items() if v is not None}}
    mean, std = _moments(said)
    _check("resample", said["resample"], tuple(PILLOW), "preprocessor_config.json")
    fraction, mode = _crop(kind, said)
    return {
        "mean": mean,
        "std": std,
        "crop_fraction": fraction,
        "crop_mode": mode,
        "resize_method": PILLOW[said["resample"]],
        "antialias": True,
    }


def _kind(processor):
    name = processor.get("image_processor_type") or processor.get("feature_extractor_type")
    if name is None:
        return "ViT"
    kind = re.sub(r"(ImageProcessor|FeatureExtractor)(Fast|Pil)?$", "", name)
    _check("image_processor_type", kind, tuple(PROCESSORS), "preprocessor_config.json")
    return kind


def _moments(said):
    scale = 255.0
    if said.get("do_rescale", True):
        scale *= _positive("rescale_factor", said.get("rescale_factor", 1 / 255))
    if not said.get("do_normalize", True):
        return (0.0,), (_rounded(1 / scale),)
    moments = []
    for name in ("image_mean", "image_std"):
        values = said.get(name)
        if values is None:
            raise _refused(name, None, "it has no default here")
        values = [values] if isinstance(values, (int, float)) else values
        moments.append(tuple(_rounded(value / scale) for value in values))
    return tuple(moments)


def _rounded(value):
    """Without what the product of 255 and 1 / 255 adds in the last digit."""
    return round(value, 12)


def _crop(kind, said):
    """(crop fraction, crop mode)."""
    size = said.get("size")
    if not said.get("do_resize", True) or size is None:
        return 1.0, "squash"
    if isinstance(size, int):
        size = {"height" if kind in SIDE_BY_SIDE else "shortest_edge": size}
    side = next((key for key in ("shortest_edge", "height") if key in size), None)
    if side is None:
        raise _refused("size", size, "it must have `shortest_edge`, or `height` and `width`")
    mode = "center" if side == "shortest_edge" else "squash"
    crop = said.get("crop_size")
    if not said["do_center_crop"] or crop is None:
        return 1.0, mode
    crop = crop if isinstance(crop, int) else crop.get("height")
    fraction = _positive("crop_size", crop) / _positive("size", size[side])
    if fraction > 1:
        raise _refused("crop_size", crop, f"it is larger than the image, {size[side]}")
    return fraction, mode


def _positive(key, value):
    if not isinstance(value, (int, float)) or not value > 0:
        raise _refused(key, value, "it must be positive")
    return value


def _check(key, value, known, where):
    if value not in known:
        raise _refused(key, value, f"known are {', '.join(map(repr, known))}", where)


def _refused(key, value, why, where="preprocessor_config.json"):
    return ValueError(
        f"{where} must say how images are prepared as keras_vit can do it. "
        f"Received: {key}={value!r}: {why}. Mend the file, or remove it from beside the weights "
        "and prepare the images yourself."
    )
