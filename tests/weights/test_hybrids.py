"""The hybrids' checkpoints of Google and timm."""

import numpy as np
import pytest
import reference_resnet
from foreign_weights import TOLERANCE, assert_same
from golden_resnets import HYBRID_GOLDENS, load_hybrid
from golden_weights import golden_file, read_npz, read_safetensors

from keras_vit.weights import google, timm


def golden_arrays(name):
    path = golden_file(name)
    return read_npz(path) if path.suffix == ".npz" else read_safetensors(path)


def read(name, arrays):
    if name.startswith("timm"):
        return timm.read(arrays, num_heads=load_hybrid(name).spec["num_heads"])
    return google.read(arrays)


@pytest.mark.parametrize("name", HYBRID_GOLDENS)
def test_goldens(name):
    spec, weights, outputs = load_hybrid(name)
    checkpoint = read(name, golden_arrays(name))
    assert_same(checkpoint.weights, weights)
    known = ("resnet", "resnet_width", "origin", "hidden_dim", "patch_size", "channels")
    assert {key: checkpoint.facts[key] for key in known} == {key: spec[key] for key in known}
    side = int((len(weights["position_embedding/table"][0]) - 1) ** 0.5)
    assert checkpoint.position_grid == (side, side)
    logits = reference_resnet.hybrid(spec, dict(checkpoint.weights), outputs["images"])["logits"]
    error = np.abs(logits - outputs["logits"]).max()
    assert error < TOLERANCE * np.abs(outputs["logits"]).max()


@pytest.mark.parametrize("name", HYBRID_GOLDENS)
def test_written_and_read_again(name):
    spec, weights, _ = load_hybrid(name)
    writer = timm if name.startswith("timm") else google
    arrays = writer.write(weights, spec)
    assert sorted(arrays) == sorted(golden_arrays(name))
    assert_same(read(name, arrays).weights, weights)


@pytest.mark.parametrize("name", ["hybrid_stages", "timm_hybrid"])
def test_refuses_to_write_kernels_standardised_for_good(name):
    spec, weights, _ = load_hybrid(name)
    writer = timm if name.startswith("timm") else google
    with pytest.raises(ValueError, match="standardised for good"):
        writer.write(weights, {**spec, "folded": True})
