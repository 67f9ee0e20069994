"""Patch dropout: in training the encoder sees only some of each image's patches."""

import keras
from keras import ops

from keras_vit.layers import checks
from keras_vit.layers.base import Layer
from keras_vit.layers.gather import gather
from keras_vit.layers.seeds import resolve_seed


@keras.saving.register_keras_serializable(package="keras_vit")
class PatchDropout(Layer):
    """Leaves out a share of the patches of each image in training (arXiv 2208.07220).

    Computation and memory of the encoder shrink with the tokens. Each image loses patches of its
    own, as many as every other, so that shapes are static. It stands after the positions, by which
    alone the encoder knows where a patch was. Nothing is rescaled: the class token, attention and
    averages do not count patches.

    Args:
        rate: Float in [0, 1), the share of the patches that is left out. At least one is kept.
        prefix_tokens: Integer, tokens before the patches, which are all kept.
        seed: Integer, or None for a random one.

    Call arguments:
        tokens: Float tensor `(B, prefix_tokens + P, D)`.
        training: Whether patches are left out.

    Returns:
        In training `(B, prefix_tokens + n, D)` with n = max(1, floor(P * (1 - rate))), the patches
        in random order; otherwise the tokens as they are.
    """

    def __init__(self, rate, prefix_tokens=0, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.rate = checks.rate(rate, "rate")
        self.prefix_tokens = checks.positive_integer(prefix_tokens, "prefix_tokens", minimum=0)
        self.seed = resolve_seed(seed)
        self.seed_generator = keras.random.SeedGenerator(self.seed)

    def call(self, tokens, training=None):
        if not training or not self.rate:
            return tokens
        prefix, patches = tokens[:, : self.prefix_tokens], tokens[:, self.prefix_tokens :]
        number = patches.shape[1]
        shape = (ops.shape(patches)[0], number)
        # In 16 bits many draws would be equal.
        draws = keras.random.uniform(shape, dtype="float32", seed=self.seed_generator)
        # Rounded before it is cut: 10 * (1 - 0.9) is a little less than 1, and 50 * 0.7 than 35.
        kept = max(1, int(round(number * (1 - self.rate), 6)))
        patches = gather(patches, ops.argsort(draws, axis=-1)[:, :kept])
        return ops.concatenate([prefix, patches], axis=1) if self.prefix_tokens else patches

    def compute_output_shape(self, input_shape):
        return input_shape
