"""Which patches are corrupted, and how."""

import json
import math

import numpy as np
import pytest
from small_models import numpy

from keras_vit.models.masked_patch_corruption import (
    EXCHANGED,
    MASKED,
    UNCHANGED,
    VISIBLE,
    PatchCorruption,
)


def corruption(number=100, width=4, **arguments):
    layer = PatchCorruption(**{"seed": 3, **arguments})
    layer.build((None, number, width))
    return layer


def plan(layer, batch_size, training=True):
    return [numpy(part) for part in layer.plan(batch_size, training)]


def test_half_of_the_patches_of_every_sample_are_corrupted():
    indices, kinds, _ = plan(corruption(number=30), 200)
    assert indices.shape == (200, 15)
    for sample, sample_kinds in zip(indices, kinds, strict=True):
        assert set(sample) == set(np.flatnonzero(sample_kinds != VISIBLE))
        assert len(set(sample)) == 15
    often = (kinds != VISIBLE).sum(axis=0)  # 100 expected, a standard deviation of 7
    assert 65 < often.min() and often.max() < 135


@pytest.mark.parametrize("shares", [(0.8, 0.1), (0.5, 0.5), (0.0, 0.0), (0.2, 0.3)])
def test_shares_are_within_binomial_bounds(shares):
    layer = corruption(mask_share=shares[0], random_share=shares[1])
    _, kinds, _ = plan(layer, 200)
    wanted = {MASKED: shares[0], EXCHANGED: shares[1], UNCHANGED: 1 - sum(shares)}
    corrupted = 200 * 50
    for kind, share in wanted.items():
        deviation = math.sqrt(corrupted * share * (1 - share))
        assert abs((kinds == kind).sum() - corrupted * share) <= 4.5 * deviation


def test_a_patch_is_exchanged_for_any_other_of_the_batch():
    layer = corruption(number=5)
    sources = np.concatenate([plan(layer, 4)[2].reshape(1, 20) for _ in range(50)])
    steps = np.bincount(((sources - np.arange(20)) % 20).ravel(), minlength=20)
    assert steps[0] == 0
    assert 25 < steps[1:].min() and steps[1:].max() < 85  # 53 expected, a deviation of 7


def test_the_only_patch_of_a_batch_stays():
    assert plan(corruption(number=1, mask_ratio=1.0), 1)[2] == 0


def test_corrupted_embeddings():
    layer = corruption(number=50, mask_share=0.4, random_share=0.4)
    layer.mask_token.assign(np.full((1, 1, 4), 9.0))
    patches = np.random.default_rng(0).normal(size=(8, 50, 4)).astype("float32")
    corrupted, indices = (numpy(part) for part in layer(patches))
    wanted_indices, kinds, sources = plan(layer, 8, training=False)
    np.testing.assert_array_equal(indices, wanted_indices)
    assert set(kinds.ravel()) == {VISIBLE, MASKED, EXCHANGED, UNCHANGED}
    for sample, number in np.ndindex(8, 50):
        kind, value = kinds[sample, number], patches[sample, number]
        if kind == MASKED:
            value = np.full(4, 9.0)
        if kind == EXCHANGED:
            value = patches[sources[sample, number] // 50, sources[sample, number] % 50]
        np.testing.assert_array_equal(corrupted[sample, number], value)


def test_corruptions_differ_by_sample_and_by_step():
    first, second = corruption(), corruption()
    steps = [plan(first, 6)[1] for _ in range(3)]
    assert len({sample.tobytes() for step in steps for sample in step}) == 18
    np.testing.assert_array_equal(plan(second, 6)[1], steps[0])  # the same seed
    assert (plan(corruption(seed=4), 6)[1] != steps[0]).any()


def test_corruption_in_inference_is_always_the_same():
    layer = corruption()
    before = plan(layer, 6, training=False)[1]
    plan(layer, 6)
    np.testing.assert_array_equal(plan(layer, 6, training=False)[1], before)
    assert len({sample.tobytes() for sample in before}) == 6


def test_the_layer_comes_back_from_its_config():
    layer = PatchCorruption(0.25, 0.6, 0.3, seed=8, name="other", dtype="mixed_bfloat16")
    copy = PatchCorruption.from_config(json.loads(json.dumps(layer.get_config())))
    assert copy.get_config() == layer.get_config()
    assert (copy.mask_ratio, copy.mask_share, copy.random_share, copy.seed) == (0.25, 0.6, 0.3, 8)
