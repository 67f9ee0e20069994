"""The library needs one backend, and not TensorFlow: seen in a process where there is none."""

import os
import pathlib
import subprocess
import sys

import keras
import pytest

ROOT = pathlib.Path(__file__).parents[1]

PROGRAM = """
import sys

sys.modules["tensorflow"] = None  # importing it raises
import keras, numpy as np
import keras_vit

model = keras_vit.VisionTransformer(
    image_size=(16, 24), patch_size=8, num_layers=1, num_heads=2, hidden_dim=8, mlp_dim=12,
    classes=3, dropout_rate=0.1)
model.compile(keras_vit.optimizers.AdamW(1e-2), loss="sparse_categorical_crossentropy")
images = np.random.default_rng(0).random((4, 16, 24, 3), "float32")
before = keras.ops.convert_to_numpy(model.get_layer("head").kernel)
model.fit(images, np.array([0, 1, 2, 0]), batch_size=2, verbose=0)
assert np.abs(keras.ops.convert_to_numpy(model.get_layer("head").kernel) - before).max() > 1e-4
model.save(sys.argv[1])
loaded = keras.saving.load_model(sys.argv[1])
np.testing.assert_allclose(
    loaded.predict(images, verbose=0), model.predict(images, verbose=0), atol=1e-6)
assert keras_vit.resize(loaded, image_size=(24, 16)).predict(
    images.transpose(0, 2, 1, 3), verbose=0).shape == (4, 3)
import pipelines  # imports TensorFlow only where data is read
assert sys.modules["tensorflow"] is None
print("all done")
"""


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="the backend is TensorFlow")
def test_everything_but_the_pipelines_works(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "model.keras")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-1:] == ["all done"], done.stderr[-2000:]
