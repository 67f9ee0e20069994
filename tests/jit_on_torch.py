"""Where tests may call PyTorch's compiler, and whether a model was one graph to it."""

import contextlib
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


@contextlib.contextmanager
def one_graph():
    """On PyTorch, what is compiled within must be whole graphs, never cut to pieces."""
    if keras.backend.backend() != "torch":
        yield
        return
    from torch._dynamo.utils import counters

    counters.clear()  # of other tests
    yield
    assert counters["stats"]["unique_graphs"] and not counters["graph_break"]
