"""The whole model: against the float64 reference, against foreign goldens, and as a Keras model."""

import contextlib

import keras
import numpy as np
import pytest
import small_models as small
from golden_weights import VIT_GOLDENS, load_golden
from jit_on_torch import JIT_ON_TORCH, one_graph
from reference_vit import forward, make_spec, random_images, random_weights
from small_models import VARIANTS, assert_close, build, call, expected, expected_output, numpy

from keras_vit import VisionTransformer
from keras_vit.layers import EncoderBlock

# The labels of a training step on the two images of a small model.
LABELS = np.array([3, 0])


@pytest.fixture
def global_policy():
    """Sets Keras's global dtype policy for one test."""
    before = keras.config.dtype_policy()
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy(before)


@pytest.fixture
def channels_first():
    before = keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")
    yield
    keras.config.set_image_data_format(before)


# --- Numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VARIANTS)
def test_outputs_equal_the_reference(name):
    variant = small.variant(name)
    assert_close(call(variant.model, variant.images), expected_output(variant))


@pytest.mark.parametrize("name", VIT_GOLDENS)
def test_outputs_equal_the_goldens(name):
    spec, weights, golden = load_golden(name)
    model = VisionTransformer(**{k: v for k, v in spec.items() if k in small.ARGUMENTS})
    small.assign(model, weights)
    encoder = f"block_{spec['num_layers'] - 1}" if spec["norm_after_pool"] else "norm"
    tensors = {
        "logits": model.output,
        "encoded": model.get_layer(encoder).output,
        "pre_logits": model.get_layer("head").input,
    }
    outputs = sorted(tensors.keys() & golden.keys())
    assert len(outputs) == 2
    parts = keras.Model(model.input, [tensors[output] for output in outputs])
    computed = parts(golden["images"], training=False)
    for output, value in zip(outputs, computed, strict=True):
        assert_close(numpy(value), golden[output])


EPSILONS = {"google": 1e-6, "timm": 1e-6, "huggingface": 1e-12}


def nearly_constant(spec, seed=0):
    """Weights with which all that the norms see has a variance of about 1e-6."""
    faint = ("patch_embedding/", "class_token/", "position_embedding/", "output/", "/probe")
    faint += ("query/", "key/") if spec["qk_norm"] else ()
    weights = random_weights(spec, seed)
    return {
        path: value * np.float32(1e-3 if any(part in path for part in faint) else 1)
        for path, value in weights.items()
    }


@pytest.mark.parametrize("pooling", ["token", "map"])
@pytest.mark.parametrize("origin", EPSILONS)
def test_epsilon_of_every_norm_is_the_origins(origin, pooling):
    fields = {"origin": origin, "qk_norm": True, "pooling": pooling, "norm_after_pool": True}
    variant = build(**fields)
    weights = nearly_constant(variant.spec)
    small.assign(variant.model, weights)
    actual = call(variant.model, variant.images)
    assert_close(actual, forward(variant.spec, weights, variant.images)["logits"])
    # The two epsilons are far apart on these weights, so that the comparison above decides.
    for other in set(EPSILONS.values()) - {EPSILONS[origin]}:
        spec = {**variant.spec, "layer_norm_epsilon": other}
        assert small.relative_error(actual, forward(spec, weights, variant.images)["logits"]) > 1e-2
    norms = [
        layer
        for layer in variant.model._flatten_layers()
        if isinstance(layer, keras.layers.LayerNormalization)
    ]
    assert len(norms) == 2 * 4 + 1 + (pooling == "map")
    assert {norm.epsilon for norm in norms} == {EPSILONS[origin]}


def test_softmax_is_that_of_the_logits():
    variant = build(classifier_activation="softmax")
    logits = expected(variant)["logits"]
    exponentials = np.exp(logits)
    actual = call(variant.model, variant.images)
    assert_close(actual, exponentials / exponentials.sum(axis=-1, keepdims=True))


def test_preprocessing_inside_takes_pixels_of_any_dtype():
    variant = build(include_preprocessing=True)
    pixels = np.random.default_rng(2).integers(0, 256, variant.images.shape, "uint8")
    wanted = expected_output(variant, pixels / 127.5 - 1.0)
    assert_close(call(variant.model, pixels.astype("float32")), wanted)
    assert_close(variant.model.predict(pixels, verbose=0), wanted)


def test_rates_grow_linearly_over_the_blocks():
    model = build(num_layers=3, dropout_rate=0.1, drop_path_rate=0.4).model
    blocks = [model.get_layer(f"block_{i}") for i in range(3)]
    assert [block.drop_path_rate for block in blocks] == pytest.approx([0.0, 0.2, 0.4])
    assert [block.dropout_rate for block in blocks] == [0.1] * 3
    assert model.get_layer("dropout").rate == 0.1
    only = build(num_layers=1, drop_path_rate=0.4).model
    assert only.get_layer("block_0").drop_path_rate == 0.0


def test_patch_dropout_gives_the_blocks_fewer_tokens_in_training(monkeypatch):
    seen, block_forward = [], EncoderBlock._forward

    def watched(self, tokens, *args):
        seen.append(tokens.shape[1])
        return block_forward(self, tokens, *args)

    model = build(num_layers=1, num_registers=2, patch_dropout_rate=0.4)
    images, model = model.images, model.model
    monkeypatch.setattr(EncoderBlock, "_forward", watched)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(images, np.array([1, 0]), verbose=0)
    # Of 15 patches 9, and 3 in front. Keras may first ask for shapes as in inference.
    assert 3 + 9 in seen and set(seen) <= {3 + 9, 3 + 15}
    seen.clear()
    model.predict(images, verbose=0)
    assert set(seen) == {3 + 15}


def test_dropout_acts_in_training_only():
    variant = small.variant("rates")
    trained = [numpy(variant.model(variant.images, training=True)) for _ in range(2)]
    assert np.abs(trained[0] - trained[1]).max() > 1e-2
    quiet = call(variant.model, variant.images)
    np.testing.assert_array_equal(call(variant.model, variant.images), quiet)


def test_a_fresh_model_starts_as_the_papers():
    model = VisionTransformer((24, 40), 8, 2, 3, 24, 40, num_registers=2, representation_size=11)
    start = small.values(model)
    # Variance 1 / fan-in, or 2 / (fan-in + fan-out), of the matrix that a kernel is when its heads
    # are laid side by side.
    deviations = {
        "patch_embedding/kernel": (8 * 8 * 3) ** -0.5,
        "position_embedding/table": 0.02,
        "register_tokens/tokens": 0.02,
        "block_1/attention/query/kernel": 24**-0.5,
        "block_1/attention/output/kernel": 24**-0.5,
        "block_1/mlp/hidden/kernel": 32**-0.5,
        "block_1/mlp/output/kernel": 32**-0.5,
        "block_1/mlp/hidden/bias": 1e-6,
        "pre_logits/kernel": 24**-0.5,
    }
    for path, deviation in deviations.items():
        # Five standard errors of the deviation of a normal sample.
        tolerance = 5 / np.sqrt(2 * start[path].size)
        assert start[path].std() == pytest.approx(deviation, rel=tolerance), path
    for path in ("head/kernel", "head/bias", "class_token/token", "block_0/attention/key/bias"):
        assert not start[path].any(), path


# --- Training ----------------------------------------------------------------------------------


def mean_cross_entropy(spec, weights, images):
    logits = forward(spec, weights, images)["logits"]
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(axis=-1))
    return (log_sum - shifted[np.arange(len(LABELS)), LABELS]).mean()


def slope(spec, weights, images, path, direction, step=1e-4):
    """The derivative of the loss along a direction in one variable, by central differences."""

    def loss(sign):
        moved = weights[path].astype(np.float64) + sign * step * direction
        return mean_cross_entropy(spec, {**weights, path: moved}, images)

    return (loss(1) - loss(-1)) / (2 * step)


# Between them they have every variable that there is.
@pytest.mark.parametrize(
    "fields",
    [
        {
            "origin": "timm",
            "num_layers": 1,
            "num_registers": 2,
            "layer_scale": 0.5,
            "qk_norm": True,
        },
        {
            "position_embedding": "learned_2d",
            "position_injection": "every_layer",
            "pooling": "map",
            "representation_size": 11,
        },
        {
            "position_embedding": "relative",
            "num_layers": 1,
            "pooling": "avg",
            "class_token": False,
            "num_registers": 1,
            "norm_after_pool": True,
        },
    ],
    ids=["token", "map", "avg"],
)
def test_one_training_step_follows_the_gradient_of_the_reference(as_users_run_it, fields):
    variant = build(**fields)
    model, spec = variant.model, variant.spec
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1.0), loss)
    history = model.fit(variant.images, LABELS, batch_size=2, verbose=0).history
    wanted = mean_cross_entropy(spec, variant.weights, variant.images)
    assert history["loss"][0] == pytest.approx(wanted, rel=1e-5)
    moved = small.values(model)
    rng = np.random.default_rng(3)
    assert {variable.path for variable in model.trainable_variables} == set(variant.weights)
    for path, before in variant.weights.items():
        gradient = before.astype(np.float64) - moved[path]
        length = np.linalg.norm(gradient)
        direction = rng.choice([-1.0, 1.0], size=before.shape)
        wanted = slope(spec, variant.weights, variant.images, path, direction)
        error = abs((gradient * direction).sum() - wanted)
        assert error < 2e-3 * length + 3e-6 * before.size**0.5, path
        # The same shift of all keys changes no softmax; every other variable must be reached.
        shift = "/key_norm/beta" if spec["qk_norm"] else "/key/bias"
        assert length > 1e-4 or path.endswith(shift), path


@pytest.mark.parametrize(
    "jit", [pytest.param(True, marks=JIT_ON_TORCH), False], ids=["jit", "eager"]
)
def test_compiled_and_eager_predictions_equal_the_reference(as_users_run_it, jit):
    # One block: tracing it takes torch half a minute.
    variant = build(num_layers=1, pooling="avg", class_token=False)
    variant.model.compile(jit_compile=jit, run_eagerly=not jit)
    with one_graph() if jit else contextlib.nullcontext():
        actual = variant.model.predict(variant.images, verbose=0)
        again = variant.model.predict_on_batch(variant.images)
    assert_close(actual, expected_output(variant))
    assert_close(again, expected_output(variant))


# --- Shapes and precision ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("include_top", "pooling", "shape"),
    [
        (True, None, (5,)),
        (True, "token", (5,)),
        (True, "avg", (5,)),
        (True, "max", (5,)),
        (True, "map", (5,)),
        (False, None, (15, 24)),
        (False, "token", (24,)),
        (False, "avg", (24,)),
        (False, "max", (24,)),
        (False, "map", (24,)),
    ],
)
def test_output_shapes(include_top, pooling, shape):
    model = VisionTransformer(
        (24, 40), 8, 2, 3, 24, 40, classes=5, include_top=include_top, pooling=pooling
    )
    assert model.output_shape == (None, *shape)
    # A class token is where one is read, and nowhere else.
    has_token = any(layer.name == "class_token" for layer in model.layers)
    assert has_token == (pooling == "token" or (include_top and pooling is None))


def test_class_token_can_be_kept_where_nothing_reads_it():
    model = build(include_top=False, pooling=None, class_token=True, num_registers=2).model
    assert model.output_shape == (None, 3 + 15, 24)
    assert model.spec.prefix_tokens == 3


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_keeps_variables_and_probabilities_in_float32(policy, global_policy):
    global_policy(policy)
    fields = {"num_layers": 1, "position_embedding": "relative"}
    variant = build(classifier_activation="softmax", **fields)
    model = variant.model
    assert model.spec.dtype == policy
    assert model.get_layer("block_0").compute_dtype == policy.removeprefix("mixed_")
    assert {variable.dtype for variable in model.weights} == {"float32"}
    model.compile("sgd", "sparse_categorical_crossentropy")
    probabilities = model.predict(variant.images, verbose=0)
    assert probabilities.dtype == "float32"
    np.testing.assert_allclose(probabilities.sum(axis=-1), 1.0, rtol=1e-6)
    exponentials = np.exp(expected(variant)["logits"])
    wanted = exponentials / exponentials.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(probabilities, wanted, atol=0.05)


def test_mixed_precision_trains(global_policy):
    global_policy("mixed_float16")
    variant = build(num_layers=1, qk_norm=True, layer_scale=0.5)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    variant.model.compile(keras.optimizers.SGD(0.1), loss)
    history = variant.model.fit(variant.images, LABELS, epochs=2, verbose=0).history["loss"]
    assert np.isfinite(history).all()
    after = small.values(variant.model)
    assert {value.dtype for value in after.values()} == {np.dtype("float32")}
    assert all(np.isfinite(value).all() for value in after.values())
    assert np.abs(after["patch_embedding/kernel"] - variant.weights["patch_embedding/kernel"]).max()


def test_dtype_is_the_models_own():
    policy = keras.DTypePolicy("mixed_bfloat16")
    model = build(dtype=policy, include_top=False, pooling="avg").model
    assert model.spec.dtype == "mixed_bfloat16"
    assert model.output.dtype == "bfloat16"
    assert {variable.dtype for variable in model.weights} == {"float32"}


# --- As a Keras model --------------------------------------------------------------------------


def test_surgery_reads_any_block():
    variant = small.variant("plain")
    tokens = expected(variant)["tokens"]
    for i in range(2):
        part = keras.Model(variant.model.input, variant.model.get_layer(f"block_{i}").output)
        assert_close(call(part, variant.images), tokens[i])


def test_summary_names_the_parts(capsys):
    small.variant("plain").model.summary()
    text = capsys.readouterr().out
    for name in ("patch_embedding", "class_token", "position_embedding", "block_1", "norm", "head"):
        assert name in text


@pytest.mark.parametrize("layer_before", [False, True], ids=["input", "layer"])
def test_input_tensor_is_built_on_and_reloads(tmp_path, layer_before):
    inputs = keras.Input((24, 40, 3), name="pixels")
    tensor = keras.layers.Rescaling(2.0, offset=-1.0)(inputs) if layer_before else inputs
    variant = build(input_tensor=tensor)
    assert variant.model.inputs[0] is inputs
    given = (variant.images + 1) / 2 if layer_before else variant.images
    assert_close(call(variant.model, given), expected_output(variant))
    variant.model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.spec == variant.model.spec
    np.testing.assert_array_equal(call(loaded, given), call(variant.model, given))


def test_layers_before_may_take_images_of_any_size():
    inputs = keras.Input((None, None, 3))
    variant = build(input_tensor=keras.layers.CenterCrop(24, 40)(inputs))
    padded = np.pad(variant.images, ((0, 0), (4, 4), (2, 2), (0, 0)))
    assert_close(call(variant.model, padded), expected_output(variant))
    with pytest.raises(ValueError, match=r"takes images \(batch, None, None, 3\)"):
        variant.model(padded[..., :1])


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (np.zeros((1, 24, 40, 3), "float32"), "`input_tensor` must be a Keras tensor"),
        (keras.KerasTensor((None, 24, 48, 3)), r"must be \(batch, 24, 40, 3\).*24, 48, 3"),
        (keras.KerasTensor((None, None, 40, 3)), r"must be \(batch, 24, 40, 3\).*None, 40, 3"),
        (keras.KerasTensor((None, 24, 40)), r"must be \(batch, 24, 40, 3\)"),
    ],
    ids=["array", "width", "unknown", "rank"],
)
def test_input_tensor_that_does_not_fit_is_refused(tensor, message):
    with pytest.raises(ValueError, match=message):
        build(input_tensor=tensor)


def test_images_stay_channels_last_under_channels_first(channels_first, tmp_path):
    variant = build()
    assert variant.model.input_shape == (None, 24, 40, 3)
    assert_close(variant.model.predict(variant.images, verbose=0), expected_output(variant))
    variant.model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_close(call(loaded, variant.images), expected_output(variant))


def test_nested_in_another_model(tmp_path):
    variant = build(include_top=False, pooling="token", name="backbone")
    inputs = keras.Input((24, 40, 3))
    outer = keras.Model(inputs, keras.layers.Dense(2, name="scores")(variant.model(inputs)))
    kernel, bias = (numpy(v) for v in outer.get_layer("scores").weights)
    wanted = expected_output(variant) @ kernel + bias
    assert_close(call(outer, variant.images), wanted)
    outer.save(tmp_path / "outer.keras")
    loaded = keras.saving.load_model(tmp_path / "outer.keras")
    assert_close(call(loaded, variant.images), wanted)
    assert loaded.get_layer("backbone").spec == variant.model.spec


def test_names_are_unique_to_each_model():
    # Two models in one graph: the same layer names within each, no clash between them.
    models = [build(name=name, include_top=False, pooling="avg") for name in ("left", "right")]
    inputs = keras.Input((24, 40, 3))
    both = keras.Model(inputs, keras.layers.Add()([m.model(inputs) for m in models]))
    images = random_images(make_spec(), seed=4)
    assert_close(call(both, images), sum(expected_output(m, images) for m in models))
