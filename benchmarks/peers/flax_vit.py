"""A Vision Transformer of Flax's own layers, as Google's Flax model of the paper is made.

Google's `vit_jax` is on no package index, so this is written after the paper (arXiv 2010.11929,
equations 1 to 4) with the layers that it uses: `nn.Conv`, `nn.MultiHeadDotProductAttention`,
`nn.LayerNorm`, `nn.Dense`. The step is one jitted function with Optax's AdamW, its state donated.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from peers import LEARNING_RATE, WEIGHT_DECAY, refuse_hybrid


class Block(nn.Module):
    heads: int
    mlp: int
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x):
        norm = functools.partial(nn.LayerNorm, dtype=self.dtype)
        y = norm()(x)
        x = x + nn.MultiHeadDotProductAttention(self.heads, dtype=self.dtype)(y, y)
        y = nn.gelu(nn.Dense(self.mlp, dtype=self.dtype)(norm()(x)))
        return x + nn.Dense(x.shape[-1], dtype=self.dtype)(y)


class VisionTransformer(nn.Module):
    layers: int
    heads: int
    width: int
    mlp: int
    patch_size: int
    classes: int
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, images):
        patch = (self.patch_size, self.patch_size)
        x = nn.Conv(self.width, patch, patch, "VALID", dtype=self.dtype)(images)
        x = x.reshape(x.shape[0], -1, self.width)
        token = self.param("cls", nn.initializers.zeros, (1, 1, self.width)).astype(x.dtype)
        x = jnp.concatenate([jnp.tile(token, (x.shape[0], 1, 1)), x], axis=1)
        positions = self.param("positions", nn.initializers.normal(0.02), (1, *x.shape[1:]))
        x = x + positions.astype(x.dtype)
        for _ in range(self.layers):
            x = Block(self.heads, self.mlp, self.dtype)(x)
        x = nn.LayerNorm(dtype=self.dtype)(x)[:, 0]
        return nn.Dense(self.classes, dtype=self.dtype)(x)


class Peer:
    def __init__(self, job):
        refuse_hybrid(job, "this Flax model")
        dtype = jnp.bfloat16 if "bfloat16" in job.dtype else jnp.float32
        model = VisionTransformer(*job.size, job.patch_size, job.classes, dtype)
        self.images, self.labels = job.images(), job.labels()
        if job.resident:
            self.images = jnp.asarray(self.images, dtype)
        self.params = jax.jit(model.init)(jax.random.key(0), self.images)
        self._optimizer = optax.adamw(LEARNING_RATE, weight_decay=WEIGHT_DECAY)
        self._slots = None
        self._apply = jax.jit(model.apply)
        self._step = jax.jit(
            functools.partial(_step, model, self._optimizer), donate_argnums=(0, 1)
        )
        self.resident = job.resident

    def forward(self):
        logits = self._apply(self.params, self.images)
        return jax.block_until_ready(logits) if self.resident else np.asarray(logits)

    def train(self, steps):
        if self._slots is None:
            self._slots = jax.jit(self._optimizer.init)(self.params)
        for _ in range(steps):
            self.params, self._slots, loss = self._step(
                self.params, self._slots, self.images, self.labels
            )
        return float(loss)


def _step(model, optimizer, params, slots, images, labels):
    def loss(params):
        logits = model.apply(params, images).astype(jnp.float32)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    value, gradients = jax.value_and_grad(loss)(params)
    updates, slots = optimizer.update(gradients, slots, params)
    return optax.apply_updates(params, updates), slots, value
