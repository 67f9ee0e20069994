"""Models that are built for weights draw no random numbers, and are otherwise as always."""

import keras
import numpy as np
import pytest
from keras import ops
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
def test_small_kernels_of_layers_are_the_numbers_that_keras_draws(dtype):
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


def large(name):
    """A kernel of two pieces, which is where these are drawn by NumPy."""
    make, shape = {
        "hidden": (lambda: MLP(640), (None, 5, 512)),
        "query": (lambda: MultiHeadAttention(16), (None, 5, 640)),
    }[name]
    layer = make()
    layer.build(shape)
    return getattr(layer, name).kernel


# The width of a uniform distribution is sqrt(6 / (fan in + fan out)).
@pytest.mark.parametrize(("name", "fans"), [("hidden", 512 + 640), ("query", 640 + 640)])
def test_large_kernels_have_the_distribution_of_glorot(name, fans):
    kernel = numpy(large(name)).reshape(-1)
    limit = (6 / fans) ** 0.5
    assert len(kernel) > 2**18
    assert 0.999 * limit < kernel.max() <= limit and -limit <= kernel.min() < -0.999 * limit
    assert abs(kernel.std() / (limit / 3**0.5) - 1) < 0.01
    pieces = kernel[: len(kernel) - 2**18], kernel[2**18 :]
    assert abs(np.corrcoef(*pieces)[0, 1]) < 0.03
    again = numpy(large(name)).reshape(-1)
    assert (again != kernel).mean() > 0.99  # another layer has another seed


def by_numpy(shape, limit, seed):
    """The published generator, 2**18 numbers from each pair of the seed and where they start."""
    starts = range(0, int(np.prod(shape)), 2**18)
    generators = [np.random.Generator(np.random.SFC64([seed, start])) for start in starts]
    numbers = np.concatenate([generator.random(2**18, "float32") for generator in generators])
    return (2 * limit * numbers - limit)[: np.prod(shape)].reshape(shape)


@pytest.mark.parametrize("processors", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_large_kernels_are_the_same_numbers_on_any_number_of_processors(
    processors, dtype, monkeypatch
):
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    initializer = keras.initializers.GlorotUniform(seed=7)
    kernel = initial_values.chosen(initializer)((600, 500), dtype)
    assert keras.backend.standardize_dtype(kernel.dtype) == dtype
    if keras.backend.backend() == "tensorflow":
        expected = initializer((600, 500), dtype)
    else:
        expected = ops.cast(by_numpy((600, 500), (6 / 1100) ** 0.5, 7), dtype)
    np.testing.assert_allclose(numpy(kernel), numpy(expected), rtol=0, atol=1e-8)


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="TensorFlow draws its own")
@pytest.mark.parametrize("name", ["hidden", "query"])
def test_large_kernels_are_not_drawn_by_the_backend(name, monkeypatch):
    drawn = []  # by Keras
    uniform = keras.initializers.GlorotUniform.__call__

    def counted(initializer, shape, dtype=None):
        drawn.append(shape)
        return uniform(initializer, shape, dtype)

    monkeypatch.setattr(keras.initializers.GlorotUniform, "__call__", counted)
    MLP(12).build((None, 5, 8))
    assert len(drawn) == 2  # so this does count
    large(name)
    assert len(drawn) == 2


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="Keras distributes on JAX alone")
def test_distributed_kernels_are_the_same_numbers():
    import jax

    chosen = initial_values.chosen(keras.initializers.GlorotUniform(seed=7))
    expected = numpy(chosen((600, 500)))
    mesh = keras.distribution.DeviceMesh((1,), ["batch"], keras.distribution.list_devices()[:1])
    keras.distribution.set_distribution(keras.distribution.DataParallel(mesh))
    try:
        np.testing.assert_array_equal(numpy(chosen((600, 500))), expected)
    finally:
        keras.distribution.set_distribution(None)
    # As Keras does where the devices could not hold the whole kernel.
    compiled = jax.jit(chosen.__call__, static_argnames=["shape", "dtype"])
    np.testing.assert_array_equal(numpy(compiled(shape=(600, 500), dtype="float32")), expected)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="a device of PyTorch")
def test_a_model_without_memory_draws_nothing():
    with keras.device("meta"):
        assert large("hidden").value.device.type == "meta"


def test_what_is_small_or_no_matrix_is_drawn_as_keras_draws_it():
    initializer = keras.initializers.GlorotUniform(seed=3)
    for shape in [(5,), (2**18,), (3, 4, 5, 6), (64, 4, 32, 40)]:
        chosen = initial_values.chosen(initializer)
        np.testing.assert_array_equal(numpy(chosen(shape)), numpy(initializer(shape)))


def test_a_seed_generator_goes_on():
    seed = keras.random.SeedGenerator(4)
    chosen = initial_values.chosen(keras.initializers.GlorotUniform(seed))
    assert np.abs(numpy(chosen((600, 500))) - numpy(chosen((600, 500)))).max() > 0.1


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
