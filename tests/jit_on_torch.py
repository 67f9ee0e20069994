"""Where tests may call PyTorch's compiler."""

import shutil
import sys

import keras
import pytest

JIT_ON_TORCH = pytest.mark.skipif(
    keras.backend.backend() == "torch"
    # PyTorch 2.13 hands its include folders to the compiler unquoted.
    and (" " in sys.prefix or not any(map(shutil.which, ("c++", "g++", "clang++")))),
    reason="torch.compile needs a C++ compiler, and an environment in a path without spaces",
)
