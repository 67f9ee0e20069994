"""Models that are built for weights draw no random numbers, and are otherwise as always."""

import keras
import numpy as np
import pytest
from small_models import build, numpy

from keras_vit import VisionTransformer
from keras_vit.layers import MLP, MultiHeadAttention, PatchEmbedding, initial_values
from keras_vit.layers.std_conv import StdConv2D

SIZES = {
    "image_size": (16, 24),
    "patch_size": 8,
    "num_layers": 1,
    "num_heads": 2,
    "hidden_dim": 8,
    "mlp_dim": 12,
    "classes": 3,
    "representation_size": 5,
    "dropout_rate": 0.1,
}
LAYERS = {
    "attention": (lambda: MultiHeadAttention(2), (None, 5, 8)),
    "mlp": (lambda: MLP(12), (None, 5, 8)),
    "patches": (lambda: PatchEmbedding(4, 8), (None, 8, 12, 3)),
    "convolution": (lambda: StdConv2D(8, 3), (None, 8, 12, 3)),
}


def kernels(layer):
    return [numpy(v) for v in layer.weights if v.name == "kernel"]


@pytest.mark.parametrize("name", LAYERS)
def test_kernels_are_zeros_inside_and_random_after(name):
    make, shape = LAYERS[name]
    with initial_values.skipped():
        blank = make()
        blank.build(shape)
    fresh = make()
    fresh.build(shape)
    assert kernels(blank) and not any(kernel.any() for kernel in kernels(blank))
    assert all(kernel.std() > 0.01 for kernel in kernels(fresh))


def test_parts_remember_how_they_were_to_start():
    with initial_values.skipped():
        attention, mlp = MultiHeadAttention(2), MLP(12)
        attention.build((None, 5, 8))
        mlp.build((None, 5, 8))
    for part in (attention.query, attention.output_projection, mlp.hidden):
        assert isinstance(part.kernel_initializer, keras.initializers.GlorotUniform)
    assert mlp.hidden.bias_initializer.stddev == 1e-6


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_kernels_are_the_numbers_that_keras_draws(dtype):
    attention, mlp = MultiHeadAttention(2, dtype=dtype), MLP(12, dtype=dtype)
    attention.build((None, 5, 8))
    mlp.build((None, 5, 8))
    kernels = [(mlp.hidden, None, None), (mlp.output_dense, None, None)]
    kernels += [(attention.key, (0,), (1, 2)), (attention.output_projection, (0, 1), (2,))]
    for layer, inputs, outputs in kernels:
        drawn = keras.initializers.GlorotUniform(
            layer.kernel_initializer.seed, input_axes=inputs, output_axes=outputs
        )(layer.kernel.shape, dtype)
        np.testing.assert_array_equal(numpy(layer.kernel), numpy(drawn))


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="elsewhere Keras draws")
def test_pytorch_draws_kernels_in_place(monkeypatch):
    import torch

    drawn = []  # by Keras, into temporaries
    rand = torch.rand
    monkeypatch.setattr(torch, "rand", lambda *args, **kw: drawn.append(args) or rand(*args, **kw))
    keras.initializers.GlorotUniform(seed=1)((4, 6))
    assert len(drawn) == 1  # so Keras does draw by it
    for name in ("attention", "mlp"):
        make, shape = LAYERS[name]
        make().build(shape)
    assert len(drawn) == 1


def test_what_has_other_fans_than_a_matrix_is_drawn_as_keras_draws_it():
    initializer = keras.initializers.GlorotUniform(seed=3)
    for shape in [(5,), (3, 4, 5, 6)]:
        chosen = initial_values.chosen(initializer)
        np.testing.assert_array_equal(numpy(chosen(shape)), numpy(initializer(shape)))


def test_a_seed_generator_goes_on():
    seed = keras.random.SeedGenerator(4)
    chosen = initial_values.chosen(keras.initializers.GlorotUniform(seed))
    assert np.abs(numpy(chosen((4, 6))) - numpy(chosen((4, 6)))).max() > 0.1


def test_the_config_is_that_of_a_fresh_model_and_a_clone_of_it_is_random():
    keras.utils.set_random_seed(0)
    fresh = VisionTransformer(**SIZES, name="model")
    with initial_values.skipped():
        blank = VisionTransformer(**SIZES, name="model")
    assert without_seeds(blank.get_config()) == without_seeds(fresh.get_config())
    clone = type(blank).from_config(blank.get_config())
    for variable in clone.weights:
        if variable.name == "kernel" and not variable.path.startswith("head"):
            assert numpy(variable).std() > 0.01, variable.path


def without_seeds(config):
    if isinstance(config, dict):
        return {k: without_seeds(v) for k, v in config.items() if k != "seed"}
    return [without_seeds(v) for v in config] if isinstance(config, (list, tuple)) else config


def test_what_is_not_a_weight_of_this_library_starts_as_always():
    with initial_values.skipped():
        model = VisionTransformer(**SIZES)
        dense = keras.layers.Dense(4)
        dense.build((None, 4))
    assert numpy(dense.kernel).std() > 0.1
    assert numpy(model.get_layer("pre_logits").kernel).std() > 0.1
    seeds = [v for v in model.variables if "seed" in v.path]
    assert seeds and all(numpy(seed).any() for seed in seeds)


def test_an_error_inside_ends_it():
    with pytest.raises(ValueError, match="patch"), initial_values.skipped():
        PatchEmbedding(7, 8).build((None, 8, 12, 3))
    layer = PatchEmbedding(4, 8)
    layer.build((None, 8, 12, 3))
    assert numpy(layer.kernel).any()


def test_a_resized_model_has_every_weight():
    from keras_vit import resize

    small = build()
    resized = {v.path: numpy(v) for v in resize(small.model, image_size=(40, 24)).weights}
    for path, value in small.weights.items():
        if not path.startswith("position_embedding"):
            np.testing.assert_array_equal(resized[path], value)
