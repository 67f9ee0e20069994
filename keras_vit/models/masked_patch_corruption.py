"""The corruption of patch embeddings that masked patch prediction learns from."""

from typing import NamedTuple

import keras
from keras import ops

from keras_vit.layers import checks
from keras_vit.layers.base import Layer
from keras_vit.layers.seeds import resolve_seed
from keras_vit.models.image_spec import is_number

# What was done to a patch.
VISIBLE, MASKED, EXCHANGED, UNCHANGED = range(4)


class Plan(NamedTuple):
    """What is to be done to the patches of a batch, n of the N of each sample corrupted.

    Attributes:
        indices: Integer tensor `(B, n)`, the corrupted patches of each sample, in random order.
        kinds: Integer tensor `(B, N)` of VISIBLE, MASKED, EXCHANGED or UNCHANGED. The last counts
            among the corrupted: the patch stays, and is predicted.
        sources: Integer tensor `(B, N)`, for each patch another one of the batch, counted through
            the samples.
    """

    indices: keras.KerasTensor
    kinds: keras.KerasTensor
    sources: keras.KerasTensor


@keras.saving.register_keras_serializable(package="keras_vit")
class PatchCorruption(Layer):
    """Corrupts a share of the patch embeddings of each sample (arXiv 2010.11929, B.1.2).

    The number of corrupted patches is the same in every sample; which ones they are, and what
    becomes of each, is drawn anew in every training step. In inference the draw is always the same
    for batches of one size, so that losses of different epochs can be compared.

    Args:
        mask_ratio: Float in (0, 1], the share of patches that are corrupted, rounded to a number.
        mask_share: Float, the chance that a corrupted patch becomes the learned mask token.
        random_share: Float, the chance that it becomes another patch of the batch. Otherwise it
            stays as it is.
        seed: Integer, or None for a random one.

    Call arguments:
        patches: Float tensor `(B, N, D)`, without prefix tokens and positions.
        training: Whether a new draw is wanted.

    Returns:
        Patches of the same shape, and the indices `(B, n)` of the corrupted ones.

    Raises:
        ValueError: if no patch would be corrupted, or the shares are no shares.
    """

    def __init__(self, mask_ratio=0.5, mask_share=0.8, random_share=0.1, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.mask_ratio = _ratio(mask_ratio)
        self.mask_share, self.random_share = _shares(mask_share, random_share)
        self.seed = resolve_seed(seed)
        self.seed_generator = keras.random.SeedGenerator(self.seed)

    def build(self, input_shape):
        _, self.num_patches, hidden_dim = checks.token_shape(input_shape)
        self.num_corrupted = round(self.mask_ratio * self.num_patches)
        if not self.num_corrupted:
            raise ValueError(
                "`mask_ratio` must corrupt at least one patch. "
                f"Received: mask_ratio={self.mask_ratio}, of {self.num_patches} patches. "
                f"The smallest ratio is {1 / self.num_patches:.2g}."
            )
        self.mask_token = self.add_weight(
            name="mask_token",
            shape=(1, 1, hidden_dim),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
        )

    def call(self, patches, training=None):
        plan = self.plan(ops.shape(patches)[0], training)
        kinds = plan.kinds[..., None]
        mask_token = ops.cast(self.mask_token, patches.dtype)
        corrupted = ops.where(ops.equal(kinds, MASKED), mask_token, patches)
        if self.random_share:
            flat = ops.reshape(patches, (-1, patches.shape[-1]))  # (B * N, D)
            others = ops.take(flat, plan.sources, axis=0)
            corrupted = ops.where(ops.equal(kinds, EXCHANGED), others, corrupted)
        return corrupted, plan.indices

    def compute_output_shape(self, input_shape):
        return input_shape, (input_shape[0], self.num_corrupted)

    def plan(self, batch_size, training=None):
        """What `call` does to a batch of this size: in training, what it does next."""
        seed = self.seed_generator if training else self.seed
        shape = (3, batch_size, self.num_patches)
        # In 16 bits many draws would be equal.
        draws = keras.random.uniform(shape, dtype="float32", seed=seed)
        order = ops.argsort(draws[0], axis=-1)
        rank = ops.argsort(order, axis=-1)
        kinds = ops.where(
            draws[1] < self.mask_share,
            MASKED,
            ops.where(draws[1] < self.mask_share + self.random_share, EXCHANGED, UNCHANGED),
        )
        kinds = ops.where(rank < self.num_corrupted, kinds, VISIBLE)
        return Plan(order[:, : self.num_corrupted], kinds, self._others(draws[2]))

    def _others(self, draws):
        """For each patch of the batch the index of another one, all equally likely."""
        number = ops.shape(draws)[0] * self.num_patches
        steps = ops.floor(draws * ops.cast(number - 1, "float32"))
        # A draw just below 1 may be rounded up, to a step all the way round.
        steps = ops.minimum(ops.cast(steps, "int32") + 1, number - 1)
        own = ops.reshape(ops.arange(number, dtype="int32"), (-1, self.num_patches))
        return (own + steps) % number

    # Keras leaves the state of random generators out of its files. With it, training goes on from
    # a file with the very corruptions that would have followed.

    def save_own_variables(self, store):
        super().save_own_variables(store)
        store["seed_state"] = ops.convert_to_numpy(self.seed_generator.state).astype("int64")

    def load_own_variables(self, store):
        self.mask_token.assign(store["0"])
        self.seed_generator.state.assign(store["seed_state"])


def _ratio(value):
    if not is_number(value) or not 0 < value <= 1:
        raise ValueError(
            "`mask_ratio` must be a number above 0 and at most 1: without corrupted patches there "
            f"is nothing to predict. Received: mask_ratio={value!r}"
        )
    return float(value)


def _shares(mask_share, random_share):
    shares = {"mask_share": mask_share, "random_share": random_share}
    for name, value in shares.items():
        if not is_number(value) or not 0 <= value <= 1:
            raise ValueError(f"`{name}` must be a number from 0 to 1. Received: {name}={value!r}")
    if mask_share + random_share > 1 + 1e-9:  # 0.9 + 0.1 may be a little more than 1
        raise ValueError(
            "`mask_share` and `random_share` must sum to at most 1; what they leave is the share "
            f"of patches that stay as they are. Received: mask_share={mask_share}, "
            f"random_share={random_share}"
        )
    return float(mask_share), float(random_share)
