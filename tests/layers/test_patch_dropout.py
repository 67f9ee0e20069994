"""Patch dropout."""

import keras
import numpy as np
import pytest
from layer_contract import call, check_layer, random_inputs

from keras_vit.layers import PatchDropout

B, P, N, D = 6, 2, 12, 20  # batch, prefix tokens, all tokens, width


def test_contract():
    check_layer(
        PatchDropout,
        {"rate": 0.4, "prefix_tokens": P, "seed": 3},
        random_inputs(B, N, D),
        lambda weights, x: x,
        seed_generators=1,
    )


@pytest.mark.parametrize("prefix", [0, 1, 3])
def test_prefix_stays_and_each_patch_comes_at_most_once(prefix):
    x = random_inputs(B, N, D)
    kept = call(PatchDropout(0.6, prefix, seed=1), [x], training=True)
    np.testing.assert_array_equal(kept[:, :prefix], x[:, :prefix])
    chosen = []
    for sample, tokens in zip(x, kept[:, prefix:], strict=True):
        equal = (tokens[:, None] == sample[None, prefix:]).all(axis=-1)
        assert (equal.sum(axis=1) == 1).all(), "a token that was no patch of this image"
        assert equal.sum(axis=0).max() == 1, "a patch that was taken twice"
        chosen.append(frozenset(np.flatnonzero(equal.any(axis=0))))
    assert len(set(chosen)) > 1, "all images lost the same"


# Patches, rate, and by hand how many are left; the last are those that floats would round down.
@pytest.mark.parametrize(
    ("patches", "rate", "left"),
    [(12, 0.0, 12), (12, 0.5, 6), (13, 0.5, 6), (12, 0.99, 1), (10, 0.9, 1), (50, 0.3, 35)],
)
def test_number_of_patches_left(patches, rate, left):
    x = random_inputs(2, patches + 1, 4)
    assert call(PatchDropout(rate, 1, seed=1), [x], training=True).shape == (2, left + 1, 4)


def test_every_patch_is_left_out_equally_often():
    images = 4000
    x = np.tile(np.arange(10, dtype="float32")[:, None], (images, 1, 1))  # a patch is its number
    kept = call(PatchDropout(0.7, seed=5), [x], training=True)[..., 0].astype(int)
    # A share of 0.3 each; its deviation over 4000 images is 0.0072.
    share = np.bincount(kept.ravel(), minlength=10) / images
    np.testing.assert_allclose(share, 0.3, atol=0.036)


def test_gradients_reach_the_patches_that_were_kept_and_no_others():
    x = keras.Variable(random_inputs(1, 5, 3))
    layer = PatchDropout(0.5, 1, seed=2)  # 2 of the 4 patches
    gradient = gradient_of_sum(layer, x)
    assert sorted(gradient.sum(axis=(0, 2))) == [0, 0, 3, 3, 3]
    assert gradient[0, 0].sum() == 3  # the prefix


def gradient_of_sum(layer, x):
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            total = tf.reduce_sum(layer(x.value, training=True))
        return tf.convert_to_tensor(tape.gradient(total, x.value)).numpy()
    if backend == "jax":
        import jax

        def total(value):
            with keras.StatelessScope():
                return layer(value, training=True).sum()

        return np.asarray(jax.grad(total)(x.value))
    layer(x.value, training=True).sum().backward()
    return x.value.grad.numpy()


@pytest.mark.parametrize("rate", [1.0, -0.1, "0.5", None])
def test_refuses(rate):
    with pytest.raises(ValueError, match="Received: rate="):
        PatchDropout(rate)
