"""Layout maps: which axis of the mesh splits which axis of each variable."""

import functools
import json
import os
import pathlib
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
from small_models import VARIANTS, variant
from small_resnets import BIT, HYBRID

import keras_vit
from keras_vit.layers import initial_values

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="Keras splits variables on JAX only"
)

ROOT = pathlib.Path(__file__).parents[2]
VITS = [name for name in keras_vit.__all__ if re.match(r"(R\d*_)?ViT_", name)]


def mesh(**sizes):
    devices = [f"cpu:{k}" for k in range(int(np.prod(list(sizes.values()))))]  # never looked for
    return keras.distribution.DeviceMesh(tuple(sizes.values()), tuple(sizes), devices)


def zeros(build, **arguments):
    with initial_values.skipped():
        return build(**arguments)


def places(model, layout_map):
    """{path: axes} of the variables that the map splits; it raises if two rules match."""
    found = {variable.path: layout_map[variable.path] for variable in model.variables}
    return {path: layout.axes for path, layout in found.items() if layout is not None}


def assert_every_rule_matches(model, layout_map):
    paths = [variable.path for variable in model.variables]
    for rule in layout_map:
        assert any(re.fullmatch(rule, path) for path in paths), rule


# No value is made, so that a model of 1.8 billion parameters needs no memory. Keras keeps such
# variables in a list that the next scope would fill, hence a process of its own.
SPLIT = """
import json, sys
import keras, keras_vit
from test_layout import assert_every_rule_matches, mesh, places

found = {}
with keras.StatelessScope(initialize_variables=False):
    for name in sys.argv[1:]:
        model = getattr(keras_vit, name)(weights=None)
        heads = model.spec.num_heads
        layout_map = keras_vit.layout_map(model, mesh(batch=2, model=heads))
        assert_every_rule_matches(model, layout_map)
        shapes = {variable.path: tuple(variable.shape) for variable in model.variables}
        split = places(model, layout_map)
        sizes = [shapes[path][axes.index("model")] for path, axes in split.items()]
        divides = all(size % heads == 0 for size in sizes)
        found[name] = [model.spec.num_layers, divides, split]
print(json.dumps(found))
"""


@functools.cache
def split_of_named_models():
    path = [ROOT, ROOT / "tests", ROOT / "tests" / "models"]
    done = subprocess.run(
        [sys.executable, "-c", SPLIT, *VITS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", VITS)
def test_heads_and_mlps_of_every_named_model(name):
    num_layers, divides, split = split_of_named_models()[name]
    assert divides
    assert len(split) == 10 * num_layers
    block = f"block_{num_layers - 1}/"
    assert {path: tuple(axes) for path, axes in split.items() if path.startswith(block)} == {
        block + "attention/query/kernel": (None, "model", None),
        block + "attention/query/bias": ("model", None),
        block + "attention/key/kernel": (None, "model", None),
        block + "attention/key/bias": ("model", None),
        block + "attention/value/kernel": (None, "model", None),
        block + "attention/value/bias": ("model", None),
        block + "attention/output/kernel": ("model", None, None),
        block + "mlp/hidden/kernel": (None, "model"),
        block + "mlp/hidden/bias": ("model",),
        block + "mlp/output/kernel": ("model", None),
    }


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_of_the_model_has_rules_that_match_once(name):
    model = variant(name).model
    layout_map = keras_vit.layout_map(model, mesh(batch=2, model=1))
    assert_every_rule_matches(model, layout_map)
    split = places(model, layout_map)
    pooled = model.spec.pooling == "map"
    assert len(split) == 10 * (model.spec.num_layers + pooled)
    assert ("map_pooling/mlp/hidden/kernel" in split) == pooled


def test_fully_sharded_along_the_longest_axis_that_divides():
    model = zeros(keras_vit.ViT_Ti16, weights=None, classes=10)
    split = places(model, keras_vit.layout_map(model, mesh(batch=64)))
    assert split["block_11/mlp/hidden/kernel"] == (None, "batch")  # (192, 768)
    assert split["block_3/mlp/output/kernel"] == ("batch", None)  # (768, 192)
    assert split["block_0/attention/query/kernel"] == ("batch", None, None)  # (192, 3, 64)
    assert split["position_embedding/table"] == (None, None, "batch")  # (1, 197, 192)
    small = {"block_0/mlp/hidden/bias", "head/kernel", "norm/gamma"}  # under 4,096 numbers
    assert not small & split.keys()


def test_fully_sharded_hybrids_and_resnets():
    for build, arguments in (
        (keras_vit.VisionTransformer, HYBRID),
        (keras_vit.BiTResNet, BIT),
    ):
        model = zeros(build, **arguments)
        layout_map = keras_vit.layout_map(model, mesh(batch=4))
        assert_every_rule_matches(model, layout_map)
        for path, axes in places(model, layout_map).items():
            shape = next(tuple(v.shape) for v in model.variables if v.path == path)
            k = axes.index("batch")
            assert np.prod(shape) >= 4096 and shape[k] % 4 == 0
            assert shape[k] == max(size for size in shape if size % 4 == 0)


def test_a_model_axis_that_does_not_divide_names_the_sizes_that_do():
    model = zeros(keras_vit.ViT_S16, weights=None)  # 6 heads, 1,536 wide
    with pytest.raises(ValueError, match=r"4 devices.*\[6, 1536\].*divide: 1, 2, 3, 6\."):
        keras_vit.layout_map(model, mesh(batch=2, model=4))


def test_a_mesh_that_splits_nothing_is_refused():
    resnet = zeros(keras_vit.BiTResNet, **BIT)
    with pytest.raises(ValueError, match="splits nothing of model="):
        keras_vit.layout_map(resnet, mesh(batch=2, model=2))
    with pytest.raises(ValueError, match="must have an axis 'batch'.*axes=\\('data',\\)"):
        keras_vit.layout_map(resnet, mesh(data=2))
