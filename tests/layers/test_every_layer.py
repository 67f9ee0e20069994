"""No layer goes untested, and what is public can be had."""

import ast
import importlib
import inspect
import pathlib
import pkgutil
import subprocess

import fresh_process
import keras
import numpy as np
import pytest
from layer_contract import as_json, call, check_config_survives, one_layer_model, random_inputs

import keras_vit
from keras_vit.layers import base, position_embedding, residual_unit

# Bases of layers, which are no layers by themselves.
ABSTRACT = {base.Layer, position_embedding.AbsolutePositions, residual_unit.ResidualUnit}


def classes_in_the_package():
    modules = pkgutil.iter_modules(keras_vit.layers.__path__, "keras_vit.layers.")
    for module in (importlib.import_module(m.name) for m in modules):
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if issubclass(cls, keras.layers.Layer) and cls.__module__ == module.__name__:
                yield cls


def layers_that_are_checked():
    """The names that stand first in a call of `check_layer` in this folder."""
    for path in pathlib.Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "check_layer":
                yield node.args[0].id


def test_every_layer_is_public():
    public = {getattr(keras_vit.layers, name) for name in keras_vit.layers.__all__}
    assert public == set(classes_in_the_package()) - ABSTRACT


def test_every_layer_goes_through_the_contract():
    assert set(layers_that_are_checked()) == set(keras_vit.layers.__all__)


@pytest.mark.parametrize("module", [keras_vit, keras_vit.layers])
def test_public_names_can_be_imported(module):
    assert module.__all__ == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None


@keras.saving.register_keras_serializable(package="somebody")
class ScaledMLP(keras_vit.layers.MLP):
    """A user's own layer on top of one of ours."""

    def __init__(self, factor=1.0, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, tokens, training=None):
        return self.factor * super().call(tokens, training=training)


def test_a_subclass_keeps_its_arguments_and_ours():
    layer = ScaledMLP(factor=3.0, mlp_dim=11, activation="relu", name="mine")
    check_config_survives(layer)
    config = layer.get_config()
    assert (config["factor"], config["mlp_dim"], config["activation"]) == (3.0, 11, "relu")
    x = random_inputs(2, 5, 20)
    plain = keras_vit.layers.MLP(11, activation="relu")
    plain.build(x.shape)
    layer.build(x.shape)
    plain.set_weights(layer.get_weights())
    np.testing.assert_allclose(call(layer, [x]), 3 * call(plain, [x]), rtol=1e-5)


def test_a_file_loaded_without_the_library_names_it(tmp_path):
    model = one_layer_model(keras_vit.layers.ClassToken(), [random_inputs(2, 5, 20)])
    model.save(tmp_path / "model.keras")
    code = f"import keras; keras.models.load_model({str(tmp_path / 'model.keras')!r})"
    process = fresh_process.start(code, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _, errors = process.communicate()
    assert process.returncode == 1
    assert "keras_vit" in errors


def test_config_of_a_list_is_that_of_a_tuple():
    # JSON gives lists back where tuples went in.
    layers = keras_vit.layers
    for first, second in (
        (layers.PatchEmbedding([4, 5], 20), layers.PatchEmbedding((4, 5), 20)),
        (layers.RelativePosition([2, 3]), layers.RelativePosition((2, 3))),
    ):
        configs = [{**as_json(layer.get_config()), "name": ""} for layer in (first, second)]
        assert configs[0] == configs[1]
