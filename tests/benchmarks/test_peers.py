"""The libraries that are measured: that they run, and that they are the same model as ours."""

import dataclasses
import os

import contender
import keras
import macs
import numpy as np
import peers
import pytest

BACKEND = keras.config.backend()
JOB = peers.Job("tiny/8", image_size=16, batch=2, classes=5)
NAMES = [name for group in peers.GROUPS[BACKEND] for name in group if "compiled" not in name]
# By hand, of 4 patches: patches, class token, positions, blocks, last norm, classifier.
BLOCK = 2 * 2 * 16 + 4 * (16 * 16 + 16) + 16 * 32 + 32 + 32 * 16 + 16
PARAMETERS = (8 * 8 * 3 * 16 + 16) + 16 + 5 * 16 + 2 * BLOCK + 2 * 16 + (16 * 5 + 5)


def peer(name, job=JOB):
    try:
        return peers.make(name, job)
    except ModuleNotFoundError as error:
        pytest.skip(str(error))


def parameters(peer):
    if hasattr(peer, "params"):
        import jax

        return sum(leaf.size for leaf in jax.tree.leaves(peer.params))
    if hasattr(peer.model, "count_params"):
        return peer.model.count_params()
    return sum(parameter.numel() for parameter in peer.model.parameters())


@pytest.fixture(autouse=True)
def policy():
    before = keras.config.dtype_policy()
    yield
    keras.config.set_dtype_policy(before)


@pytest.mark.parametrize("name", NAMES)
def test_a_peer_is_the_same_model_and_classifies_and_trains(name):
    found = peer(name)
    assert parameters(found) == PARAMETERS
    logits = found.forward()
    assert np.shape(logits) == (2, 5) and isinstance(logits, np.ndarray)
    first = found.train(1)
    assert np.isfinite(first) and found.train(8) < first  # it learns its one batch


@pytest.mark.parametrize("name", NAMES)
def test_images_on_the_device_give_as_many_logits_and_train(name):
    found = peer(name, dataclasses.replace(JOB, resident=True))
    assert tuple(found.forward().shape)[-1] == 5
    first = found.train(1)
    assert np.isfinite(first) and found.train(8) < first


def test_resident_images_give_the_logits_of_predict():
    from peers import loops

    ours = peers.make("keras_vit", JOB)
    ours.model.get_layer("head").kernel.assign(np.arange(80.0).reshape(16, 5) / 80)
    want = ours.forward()
    got = keras.ops.convert_to_numpy(loops.forward(ours.model, JOB)())
    np.testing.assert_allclose(got, want[: len(got)], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "bfloat16"])
def test_sixteen_bits(dtype):
    ours = peers.make("keras_vit", dataclasses.replace(JOB, dtype=dtype))
    assert ours.model.compute_dtype == "bfloat16"
    assert ours.model.variable_dtype == ("bfloat16" if dtype == "bfloat16" else "float32")
    assert np.isfinite(ours.forward().astype("float32")).all()


SWITCHES = ["rematerialize", "steps_per_execution", "int8", "patch_dropout"]


@pytest.mark.parametrize("switch", SWITCHES)
def test_what_is_switched_on(switch):
    ours = peers.make("keras_vit", dataclasses.replace(JOB, switch=switch))
    if switch == "int8":
        assert "int8" in {variable.dtype for variable in ours.model.variables}
        assert ours.forward().shape == (2, 5)
        return
    if switch == "steps_per_execution" and BACKEND == "torch":
        with pytest.raises(ValueError, match="must be 1 with the PyTorch backend"):
            ours.train(4)
        return
    assert np.isfinite(ours.train(4))
    blocks = [layer for layer in ours.model.layers if layer.name.startswith("block_")]
    assert all(block.rematerialize == (switch == "rematerialize") for block in blocks)
    dropped = [layer.rate for layer in ours.model.layers if layer.name == "patch_dropout"]
    assert dropped == ([0.5] if switch == "patch_dropout" else [])
    assert ours.model.steps_per_execution == (4 if switch == "steps_per_execution" else 1)


def test_a_hybrid_is_of_its_patches_and_folded_where_it_shall_be():
    if BACKEND != "tensorflow":
        pytest.skip("no backend has a part in it")
    job = peers.Job("R50+tiny/16", image_size=32, batch=2, classes=5)
    plain, folded = (peers.ours.build(dataclasses.replace(job, folded=f)) for f in (False, True))
    assert (plain.spec.folded, folded.spec.folded) == (False, True)
    assert plain.spec.grid == (2, 2)


def test_multiply_adds():
    block = 4 * 5 * 16 * 16 + 2 * 5 * 5 * 16 + 2 * 5 * 16 * 32
    assert macs.forward(JOB) == 4 * 8 * 8 * 3 * 16 + 2 * block + 16 * 5
    assert macs.training(JOB) == 3 * macs.forward(JOB)


def test_a_contender_answers_with_the_time_of_one_pass(monkeypatch):
    monkeypatch.setitem(os.environ, "KERAS_BACKEND", BACKEND)
    ours = contender.Contender("keras_vit", dataclasses.asdict(JOB))
    assert ours.work("build")["seconds"] > 0
    assert ours.work("forward", least=3)["count"] == 3
    assert ours.work("train", steps=2)["count"] == 2
    assert ours.work("forget the peak") == {}


def test_seconds_are_of_one_part(monkeypatch):
    times = iter([0.0, 1.0, 5.0, 12.0])  # the start, after each of two turns, the end
    monkeypatch.setattr(contender.time, "perf_counter", lambda: next(times))
    found = contender.timed(lambda: None, seconds=3.0, parts=3)
    assert found == {"seconds": 12.0 / 6, "count": 6}


def test_the_matrix_product_counts_its_operations(monkeypatch):
    monkeypatch.setitem(os.environ, "KERAS_BACKEND", BACKEND)
    answer = contender.Product(BACKEND, side=64).work(least=2)
    assert answer["flops"] == pytest.approx(2 * 64**3 / answer["seconds"])


@pytest.mark.parametrize("name", ["KerasHub", "Flax", "transformers"])
def test_who_has_no_hybrids_says_so(name):
    if name == "transformers" and BACKEND != "torch" or name == "Flax" and BACKEND != "jax":
        pytest.skip("not a peer on this backend")
    with pytest.raises(ValueError, match="no hybrids"):
        peer(name, peers.Job("R50+tiny/16", image_size=32))


def test_timm_has_our_hybrids():
    if BACKEND != "torch":
        pytest.skip("not a peer on this backend")
    job = peers.Job("R50+tiny/16", image_size=32, batch=2, classes=5)
    assert parameters(peer("timm", job)) == peers.ours.build(job).count_params()
