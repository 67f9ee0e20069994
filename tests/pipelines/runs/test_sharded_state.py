"""States of which each process writes its shards; here of one process. Several: `test_runs.py`."""

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("orbax.checkpoint")

from pipelines.runs import sharded_state
from pipelines.runs.state import variables_of

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="only JAX splits variables"
)


def compiled(units=3, seed=0):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(units)])
    model.compile(keras.optimizers.Adam(0.1), "mse")
    model.fit(np.ones((8, 4)), np.ones((8, units)), verbose=0)
    return model


def values(model):
    return {name: np.array(variable.value) for name, variable in variables_of(model)}


def test_the_last_whole_state_comes_back(tmp_path):
    path = tmp_path / "shards"
    assert not sharded_state.has_state(path)
    model = compiled()
    sharded_state.save_state(path, model, {"position": 4, "history": []})
    wanted = values(model)
    # What a process leaves that was killed while it wrote the next one.
    left = path / "6.orbax-checkpoint-tmp-17"
    left.mkdir()
    (left / "state").write_bytes(b"half")
    assert sharded_state.has_state(path)
    assert sharded_state.read_facts(path) == {"position": 4, "history": [], "backend": "jax"}
    other = compiled(seed=1)
    assert any((value != wanted[name]).any() for name, value in values(other).items())
    sharded_state.restore_state(path, other)
    for name, value in values(other).items():
        np.testing.assert_array_equal(value, wanted[name], err_msg=name)
    sharded_state.save_state(path, other, {"position": 7})
    assert sharded_state.read_facts(path)["position"] == 7
    assert not (path / "4").exists()


def test_a_state_of_another_model_is_refused(tmp_path):
    sharded_state.save_state(tmp_path / "shards", compiled(), {"position": 1})
    other = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, use_bias=False)])
    other.compile("sgd", "mse")
    with pytest.raises(ValueError, match="of another model or optimizer"):
        sharded_state.restore_state(tmp_path / "shards", other)
