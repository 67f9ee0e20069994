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


def test_what_reads_and_shows_models_is_imported_where_it_is_used():
    program = """
import sys, keras_vit
model = keras_vit.VisionTransformer(8, 4, 1, 2, 8, 8, classes=3)
late = {"keras_vit.analysis", "keras_vit.weights"}
assert not late & set(sys.modules), late & set(sys.modules)
assert callable(keras_vit.analysis.attention)
from keras_vit import decode_predictions, load_weights, preprocess_input, save_weights
assert load_weights is keras_vit.load_weights
assert late <= set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_unknown_name():
    with pytest.raises(AttributeError, match="module 'keras_vit' has no attribute 'ViT_B17'"):
        keras_vit.ViT_B17  # noqa: B018
