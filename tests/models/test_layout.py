"""Layout maps: which axis of the mesh splits which axis of each variable."""

import re

import keras
import numpy as np
import pytest
from small_models import VARIANTS, variant
from small_resnets import BIT, HYBRID

import keras_vit

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="Keras splits variables on JAX only"
)

VITS = [name for name in keras_vit.__all__ if re.match(r"(R\d*_)?ViT_", name)]


def mesh(**sizes):
    devices = [f"cpu:{k}" for k in range(int(np.prod(list(sizes.values()))))]  # never looked for
    return keras.distribution.DeviceMesh(tuple(sizes.values()), tuple(sizes), devices)


def without_weights(build, **arguments):
    with keras.StatelessScope(initialize_variables=False):
        return build(**arguments)


def places(model, layout_map):
    """{path: axes} of the variables that the map splits; it raises if two rules match."""
    found = {variable.path: layout_map[variable.path] for variable in model.variables}
    return {path: layout.axes for path, layout in found.items() if layout is not None}


def assert_every_rule_matches(model, layout_map):
    paths = [variable.path for variable in model.variables]
    for rule in layout_map:
        assert any(re.fullmatch(rule, path) for path in paths), rule


@pytest.mark.parametrize("name", VITS)
def test_heads_and_mlps_of_every_named_model(name):
    model = without_weights(getattr(keras_vit, name), weights=None)
    heads = model.spec.num_heads
    layout_map = keras_vit.layout_map(model, mesh(batch=2, model=heads))
    assert_every_rule_matches(model, layout_map)
    split = places(model, layout_map)
    block = "block_0/"
    assert {path: axes for path, axes in split.items() if path.startswith(block)} == {
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
    assert len(split) == 10 * model.spec.num_layers
    shapes = {variable.path: variable.shape for variable in model.variables}
    for path, axes in split.items():
        assert shapes[path][axes.index("model")] % heads == 0, path


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_of_the_model_has_rules_that_match_once(name):
    model = variant(name).model
    layout_map = keras_vit.layout_map(model, mesh(batch=1, model=model.spec.num_heads))
    assert_every_rule_matches(model, layout_map)
    split = places(model, layout_map)
    pooled = model.spec.pooling == "map"
    assert len(split) == 10 * (model.spec.num_layers + pooled)
    assert ("map_pooling/mlp/hidden/kernel" in split) == pooled


def test_fully_sharded_along_the_longest_axis_that_divides():
    model = without_weights(keras_vit.ViT_Ti16, weights=None, classes=10)
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
        model = without_weights(build, **arguments)
        layout_map = keras_vit.layout_map(model, mesh(batch=4))
        assert_every_rule_matches(model, layout_map)
        for path, axes in places(model, layout_map).items():
            shape = next(tuple(v.shape) for v in model.variables if v.path == path)
            k = axes.index("batch")
            assert np.prod(shape) >= 4096 and shape[k] % 4 == 0
            assert shape[k] == max(size for size in shape if size % 4 == 0)


def test_a_model_axis_that_does_not_divide_names_the_sizes_that_do():
    model = without_weights(keras_vit.ViT_S16, weights=None)  # 6 heads, 1,536 wide
    with pytest.raises(ValueError, match=r"4 devices.*\[6, 1536\].*divide: 1, 2, 3, 6\."):
        keras_vit.layout_map(model, mesh(batch=2, model=4))


def test_a_mesh_that_splits_nothing_is_refused():
    resnet = without_weights(keras_vit.BiTResNet, **BIT)
    with pytest.raises(ValueError, match="splits nothing of model="):
        keras_vit.layout_map(resnet, mesh(batch=2, model=2))
    with pytest.raises(ValueError, match="must have an axis 'batch'.*axes=\\('data',\\)"):
        keras_vit.layout_map(resnet, mesh(data=2))
