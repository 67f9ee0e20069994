"""What is kept between layers, and what of the last block is computed: to the same numbers."""

import weakref

import keras
import numpy as np
import pytest
import small_models as small

from keras_vit.layers import EncoderBlock
from keras_vit.models.image_model import ImageModel

READ_MORE = [
    name for name, fields in small.VARIANTS.items() if fields.get("pooling", "token") != "token"
]


def all_tokens(model):
    """A model of the same layers in which every block computes every token."""
    return keras.Model(model.inputs[0], model.outputs[0])


@pytest.fixture
def lengths(monkeypatch):
    """How many tokens each block returned, in order."""
    seen, forward = [], EncoderBlock._forward

    def watched(self, *args):
        tokens = forward(self, *args)
        seen.append(tokens.shape[1])
        return tokens

    monkeypatch.setattr(EncoderBlock, "_forward", watched)
    return seen


@pytest.mark.parametrize("name", small.VARIANTS)
def test_the_last_block_computes_what_is_read(name, lengths):
    variant = small.variant(name)
    tokens = variant.model.get_layer("block_1").output.shape[1]
    small.call(variant.model, variant.images)
    assert lengths == [tokens, tokens if name in READ_MORE else 1]


@pytest.mark.parametrize("name", sorted(small.VARIANTS.keys() - READ_MORE))
def test_outputs_are_those_of_all_tokens(name):
    variant = small.variant(name)
    wanted = small.call(all_tokens(variant.model), variant.images)
    small.assert_close(small.call(variant.model, variant.images), wanted, 2e-6)


@pytest.mark.parametrize(
    ("around", "dtype"),
    [
        ("float32", "mixed_bfloat16"),
        ("mixed_bfloat16", "float32"),
        ("mixed_bfloat16", "mixed_bfloat16"),
        ("bfloat16", "float32"),
    ],
)
def test_layers_keep_their_dtypes_in_a_model_of_another_policy(around, dtype):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(around)
    try:
        variant = small.build(dtype=dtype)
        wanted = small.call(all_tokens(variant.model), variant.images)
        outputs = small.call(variant.model, variant.images)
    finally:
        keras.config.set_dtype_policy(before)
    assert outputs.dtype == wanted.dtype
    small.assert_close(outputs, wanted, 2e-6 if dtype == "float32" else 2e-2)
    exact = small.call(small.build().model, variant.images)
    assert np.abs(outputs - exact).max() > 1e-4 or dtype == "float32"


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="a way of calling on PyTorch alone")
def test_keras_prepares_the_call_of_the_model_alone(monkeypatch):
    model, prepared, call = small.build().model, [], keras.layers.Layer.__call__

    def watched(self, *args, **kwargs):
        prepared.append(self.name)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(keras.layers.Layer, "__call__", watched)
    small.call(model, np.ones((2, *model.input_shape[1:]), "float32"))
    assert prepared[0] == model.name
    assert not any(name.startswith("block_") for name in prepared)


def trained(whole):
    variant = small.build(num_registers=1, representation_size=11, layer_scale=0.5)
    model = all_tokens(variant.model) if whole else variant.model
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.5), loss)
    model.fit(variant.images, np.array([3, 0]), epochs=2, verbose=0, shuffle=False)
    return small.values(variant.model)


def test_training_moves_every_weight_as_with_all_tokens():
    wanted, values = trained(whole=True), trained(whole=False)
    for path, value in values.items():
        np.testing.assert_allclose(value, wanted[path], rtol=1e-4, atol=2e-6, err_msg=path)


def test_layers_of_the_graph_keep_all_tokens():
    variant = small.build(num_registers=2)
    encoded = keras.Model(variant.model.input, variant.model.get_layer("norm").output)
    small.assert_close(small.call(encoded, variant.images), small.expected(variant)["encoded"])


def test_a_graph_that_reads_more_computes_all(lengths):
    model = small.variant("plain").model
    outputs = [model.output, model.get_layer("block_1").output]
    both = ImageModel(model.input, outputs, spec=model.spec)
    logits, tokens = both(small.variant("plain").images)
    assert lengths == [16, 16] and tuple(tokens.shape) == (2, 16, 24)


def test_a_graph_without_blocks():
    model = small.variant("plain").model
    embedded = ImageModel(model.input, model.get_layer("patch_embedding").output, spec=model.spec)
    assert embedded(small.variant("plain").images).shape[1:] == (15, 24)


def test_a_model_within_a_model(lengths):
    variant = small.variant("plain")
    images = keras.Input(variant.images.shape[1:])
    doubled = keras.Model(images, 2 * variant.model(images))
    lengths.clear()
    wanted = 2 * small.expected_output(variant)
    small.assert_close(small.call(doubled, variant.images), wanted)
    assert lengths == [16, 1]


@pytest.mark.parametrize(("graph", "at_once"), [(lambda model: model, 2), (all_tokens, 5)])
def test_what_a_layer_returned_is_let_go(graph, at_once, monkeypatch):
    """Where nothing is compiled: of five blocks, the tokens of the one before and of this one."""
    variant = small.build(num_layers=5, pooling="avg")
    variant.model.trainable = False  # for gradients PyTorch would keep them
    returned, alive, forward = [], [], EncoderBlock._forward

    def watched(self, *args):
        tokens = forward(self, *args)
        returned.append(weakref.ref(tokens))
        alive.append(sum(tokens() is not None for tokens in returned))
        return tokens

    monkeypatch.setattr(EncoderBlock, "_forward", watched)
    graph(variant.model)(keras.ops.convert_to_tensor(variant.images))
    assert max(alive) == at_once
