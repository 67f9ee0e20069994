"""What a layer's parts do when the layer calls them: the same as in a call by anybody else."""

import keras
import numpy as np
import pytest
from keras import ops
from layer_contract import assert_close, random_inputs, to_numpy

from keras_vit.layers import EncoderBlock

B, N, D = 2, 5, 12
TORCH_ALONE = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="a way of calling on PyTorch alone"
)


@pytest.fixture
def block():
    block = EncoderBlock(num_heads=3, mlp_dim=7, layer_scale=0.5, qk_norm=True, dtype="float32")
    block.build((None, N, D))
    return block


def tokens():
    return ops.convert_to_tensor(random_inputs(B, N, D))


def by_parts(block, tokens):
    """The block's tokens by calls from outside."""
    hidden = block.attention_norm(tokens)
    tokens = tokens + block.attention_scale(block.attention(hidden, hidden))
    return tokens + block.mlp_scale(block.mlp(block.mlp_norm(tokens)))


@TORCH_ALONE
def test_keras_prepares_one_call(block, monkeypatch):
    prepared, call = [], keras.layers.Layer.__call__

    def watched(self, *args, **kwargs):
        prepared.append(self.name)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(keras.layers.Layer, "__call__", watched)
    block(tokens())
    assert prepared == [block.name, "query_norm", "key_norm"]


def test_outputs(block):
    assert_close(to_numpy(block(tokens())), to_numpy(by_parts(block, tokens())), 1e-6)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "bfloat16"])
def test_a_part_with_a_policy_of_its_own(block, policy):
    before = to_numpy(block(tokens()))
    block.mlp.dtype_policy = keras.DTypePolicy(policy)
    for dense in (block.mlp.hidden, block.mlp.output_dense):
        dense.dtype_policy = keras.DTypePolicy(policy)
    outputs = to_numpy(block(tokens()))
    assert_close(outputs, to_numpy(by_parts(block, tokens())), 1e-6)
    assert np.abs(outputs - before).max() > 1e-4


def test_losses_of_a_part(block):
    block.mlp.activity_regularizer = keras.regularizers.L2(1.0)
    hidden = block.attention_norm(tokens())
    between = tokens() + block.attention_scale(block.attention(hidden, hidden))
    wanted = np.sum(np.square(to_numpy(block.mlp(block.mlp_norm(between)))))
    block(tokens())
    (loss,) = block.losses
    assert_close(to_numpy(loss) * B, wanted, 1e-5)


@TORCH_ALONE
def test_hooks_see_what_goes_in_and_comes_out(block):
    seen = []
    for name in ("attention_norm", "attention", "mlp_norm", "mlp", "mlp_scale"):
        part = getattr(block, name)
        part.register_forward_hook(
            lambda part, inputs, outputs, name=name: seen.append(
                (name, *(tuple(x.shape) for x in (*inputs, outputs)))
            )
        )
    block(tokens(), num_queries=2)
    short, long = (B, 2, D), (B, N, D)
    assert seen == [
        ("attention_norm", long, long),
        ("attention", short, long, short),
        ("mlp_norm", short, short),
        ("mlp", short, short),
        ("mlp_scale", short, short),
    ]


@TORCH_ALONE
def test_a_hook_may_change_the_output(block):
    before = to_numpy(block(tokens()))
    hook = block.mlp_scale.register_forward_hook(lambda part, inputs, outputs: 0 * outputs)
    hidden = block.attention_norm(tokens())
    without_mlp = tokens() + block.attention_scale(block.attention(hidden, hidden))
    assert_close(to_numpy(block(tokens())), to_numpy(without_mlp), 1e-6)
    hook.remove()
    assert_close(to_numpy(block(tokens())), before, 1e-6)
