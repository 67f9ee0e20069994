"""The names that `import keras_vit` gives."""

import subprocess
import sys

import pytest

import keras_vit


def test_every_name_is_there():
    names = keras_vit.__all__
    assert sorted(set(names)) == sorted(names)
    assert all(hasattr(keras_vit, name) for name in names)
    assert {*names, "__version__"} <= set(dir(keras_vit))


def test_the_analysis_is_imported_where_it_is_used():
    program = """
import sys, keras_vit
assert "keras_vit.analysis" not in sys.modules
assert callable(keras_vit.analysis.attention)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_unknown_name():
    with pytest.raises(AttributeError, match="module 'keras_vit' has no attribute 'ViT_B17'"):
        keras_vit.ViT_B17  # noqa: B018
