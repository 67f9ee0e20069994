"""Foreign checkpoints made for these tests, and what to compare them with."""

import numpy as np
from golden_weights import golden_file, load_golden, read_npz, read_safetensors
from reference_vit import forward, make_spec, random_weights

TOLERANCE = 2e-5  # of the largest logit

# Sizes of which no two are equal: D 24, h 4, d 6, M 40, K 5, patches 3 x 5 pixels, grid 4 x 4.
SIZES = {
    "image_size": (12, 20),
    "patch_size": (3, 5),
    "num_layers": 3,
    "num_heads": 4,
    "hidden_dim": 24,
    "mlp_dim": 40,
    "classes": 5,
}


def model(seed=0, **fields):
    """(facts, weights under our paths) of a small model."""
    spec = make_spec(**{**SIZES, **fields})
    return spec, random_weights(spec, seed)


def golden_arrays(name):
    """The arrays of a golden's file, by readers that are not the library's."""
    path = golden_file(name)
    return read_npz(path) if path.suffix == ".npz" else read_safetensors(path)


def assert_same(actual, expected):
    """The same arrays to the last bit, under the same names, in float32."""
    assert sorted(actual) == sorted(expected)
    for name in expected:
        array = np.asarray(actual[name])
        assert array.dtype == np.float32, name
        np.testing.assert_array_equal(array, expected[name], err_msg=name, strict=True)


def assert_golden(checkpoint, name):
    """The checkpoint of a golden's file: its facts, its weights, and the golden's logits."""
    spec, weights, expected = load_golden(name)
    fields = {key: spec[key] for key in checkpoint.facts if key in spec and key != "layer_scale"}
    facts = {key: value for key, value in checkpoint.facts.items() if key in fields}
    assert facts == fields
    assert checkpoint.facts["layer_scale"] is (None if spec["layer_scale"] is None else True)
    assert_same(checkpoint.weights, weights)
    logits = forward(spec, dict(checkpoint.weights), expected["images"])["logits"]
    error = np.abs(logits - expected["logits"]).max() / np.abs(expected["logits"]).max()
    assert error < TOLERANCE


def logits(facts, weights, images):
    """The reference's logits for a checkpoint's own facts."""
    known = make_spec()
    fields = {name: value for name, value in facts.items() if name in known}
    return forward(make_spec(**fields), dict(weights), images)["logits"]
