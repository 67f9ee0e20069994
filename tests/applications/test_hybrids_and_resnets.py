"""The named hybrids and BiT ResNets: counts to the last digit, arguments, defaults."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_vit

# Parameters with 1,000 classes at 224 x 224, and billions of multiply-adds there and at 384 x 384.
TABLE = {
    "R_ViT_Ti16": (6_337_704, 0.43, 1.33),
    "R26_ViT_S32": (36_431_912, 3.46, 10.26),
    "R26_ViT_B32": (101_383_976, None, None),
    "R50_ViT_B32": (110_945_832, 8.46, 24.94),
    "R50_ViT_B16": (98_659_112, 21.54, 67.16),
    "R50_ViT_L32": (328_994_856, 19.41, 57.14),
    "R50_ViT_L16": (316_483_624, 65.54, 202.78),
    "BiT_R50x1": (25_549_352, 4.09, 12.01),
    "BiT_R50x2": (97_988_712, 16.12, 47.36),
    "BiT_R50x3": (217_319_080, 36.08, 106.03),
    "BiT_R101x1": (44_541_480, 7.80, 22.92),
    "BiT_R101x3": (387_934_888, 69.49, 204.21),
    "BiT_R152x1": (60_185_128, 11.51, 33.83),
    "BiT_R152x2": (236_335_208, 45.81, 134.63),
    "BiT_R152x4": (936_533_224, 182.78, 537.13),
    "BiT_R200x3": (568_633_000, 134.35, 394.80),
}
# The Vision Transformers' multiply-adds: H/14 takes 378 pixels for 384.
VITS = {
    "ViT_Ti16": (1.25, 4.68),
    "ViT_S32": (1.14, 3.44),
    "ViT_S16": (4.60, 15.49),
    "ViT_B32": (4.41, 13.04),
    "ViT_B16": (17.56, 55.48),
    "ViT_B8": (78.15, 294.04),
    "ViT_L32": (15.38, 45.28),
    "ViT_L16": (61.55, 191.07),
    "ViT_L14": (81.01, 247.09),
    "ViT_H14": (167.30, 503.48),
}
GRIDS = {"R50_ViT_B16": [14, 14], "R50_ViT_L16": [14, 14]}
HYBRIDS = [name for name in TABLE if "ViT" in name]
RESNETS = [name for name in TABLE if name.startswith("BiT")]

# Without values: a model of a billion parameters takes megabytes.
_COUNT = """
import json, sys
import keras, keras_vit

def facts(name, side):
    model = getattr(keras_vit, name)(weights=None, input_shape=(side, side, 3))
    return {
        "parameters": model.count_params(),
        "macs": keras_vit.count_macs(model).total,
        "grid": model.spec.grid,
        "table": [tuple(v.shape) for v in model.weights if v.path == "position_embedding/table"],
    }

with keras.StatelessScope(initialize_variables=False):
    names = json.loads(sys.argv[1])
    sides = lambda name: (224, 378 if name.endswith("14") else 384)
    print(json.dumps({name: [facts(name, side) for side in sides(name)] for name in names}))
"""


@pytest.fixture(scope="module")
def counted():
    command = [sys.executable, "-c", _COUNT, json.dumps([*TABLE, *VITS])]
    root = Path(keras_vit.__file__).parent.parent
    process = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", TABLE)
def test_parameters_to_the_last_digit(counted, name):
    assert counted[name][0]["parameters"] == TABLE[name][0]


@pytest.mark.parametrize("name", [*TABLE, *VITS])
def test_multiply_adds_are_the_papers(counted, name):
    expected = TABLE[name][1:] if name in TABLE else VITS[name]
    for facts, billions in zip(counted[name], expected, strict=True):
        if billions is not None:
            assert abs(facts["macs"] / 1e9 - billions) < 0.01 * billions


@pytest.mark.parametrize("name", HYBRIDS)
def test_grids(counted, name):
    grid = GRIDS.get(name, [7, 7])
    assert counted[name][0]["grid"] == grid
    assert counted[name][0]["table"][0][1] == 1 + grid[0] * grid[1]


@pytest.mark.parametrize("name", [*HYBRIDS, *RESNETS])
def test_the_familiar_arguments_in_the_familiar_order(name):
    signature = inspect.signature(getattr(keras_vit, name))
    positional = [
        (parameter.name, parameter.default)
        for parameter in signature.parameters.values()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    assert positional == [
        ("include_top", True),
        ("weights", "imagenet"),
        ("input_tensor", None),
        ("input_shape", None),
        ("pooling", None),
        ("classes", None),
        ("classifier_activation", "softmax"),
    ]
    vit = inspect.signature(keras_vit.ViT_B16).parameters
    assert set(signature.parameters) <= set(vit)
    if name in HYBRIDS:
        assert list(signature.parameters) == list(vit)


@pytest.mark.parametrize("name", HYBRIDS)
def test_dropout_is_that_of_the_papers_code(name):
    rate = inspect.signature(getattr(keras_vit, name)).parameters["dropout_rate"].default
    assert rate == (0.1 if name in ("R50_ViT_B16", "R50_ViT_L32") else 0.0)


@pytest.mark.parametrize("name", [*HYBRIDS, *RESNETS])
def test_documented(name):
    constructor = getattr(keras_vit, name)
    assert constructor.__name__ == name
    title = name.replace("_", "-").replace("-ViT-", "+ViT-")
    assert (title[:-2] if name in HYBRIDS else title) in constructor.__doc__
    assert f"keras_vit.{name}(" in constructor.__doc__
    assert "{" not in constructor.__doc__


def test_a_hybrid_of_any_size_without_its_top():
    with keras.StatelessScope(initialize_variables=False):
        model = keras_vit.R26_ViT_S32(False, None, input_shape=(100, 65, 1), pooling="avg")
        assert model.output_shape == (None, 384)
        assert model.spec.grid == (4, 3)
        assert model.name == "r26_vit_s32"
        tokens = keras_vit.R_ViT_Ti16(False, None, input_shape=(64, 32, 3))
        assert tokens.output_shape == (None, 3, 192)


def test_a_resnet_without_its_top():
    with keras.StatelessScope(initialize_variables=False):
        model = keras_vit.BiT_R50x1(False, None, input_shape=(65, 100, 3), name="mine")
        assert model.output_shape == (None, 3, 4, 2048)
        assert model.name == "mine"
        shapes = [model.get_layer(name).output.shape[1:] for name in model.spec.stage_layers]
        assert shapes == [(17, 25, 256), (9, 13, 512), (5, 7, 1024), (3, 4, 2048)]


def test_own_weights_go_into_another_size(tmp_path):
    # A named model is large: the smallest of them, once.
    model = keras_vit.R_ViT_Ti16(weights=None, input_shape=(32, 64, 3), classes=3)
    model.save(tmp_path / "tiny.keras")
    with pytest.warns(UserWarning, match="grid 1x2 to 2x2"):
        larger = keras_vit.R_ViT_Ti16(
            weights=tmp_path / "tiny.keras", input_shape=(64, 64, 3), classes=3
        )
    kernels = [keras.ops.convert_to_numpy(m.get_layer("stem_conv").kernel) for m in (model, larger)]
    np.testing.assert_array_equal(*kernels)
    assert larger.get_layer("position_embedding").table.shape == (1, 5, 192)


@pytest.mark.parametrize("name", ["R_ViT_Ti16", "BiT_R50x1"])
def test_unknown_weights_are_refused(name):
    with keras.StatelessScope(initialize_variables=False):
        with pytest.raises(ValueError, match="weights='jft'"):
            getattr(keras_vit, name)(weights="jft")
