"""Lets torchvision be imported beside a PyTorch that cannot load its C++ operators.

timm and transformers import torchvision, of whose operators the models here use none. Package
indexes offer its CUDA build beside PyTorch's CPU build; the operators in it do not load, and then
the import fails where torchvision describes the shapes of two of them. To declare these two,
without an implementation, lets the import pass and changes nothing that is measured.
"""

import functools
import importlib.util
import pathlib

import torch

BOXES = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


@functools.cache  # what is declared cannot be declared again
def declare_operators():
    """To be called before torchvision is imported; does nothing where its operators load."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None:
        return
    try:
        for library in pathlib.Path(spec.submodule_search_locations[0]).glob("_C*.so"):
            torch.ops.load_library(str(library))
    except OSError:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", BOXES)
