"""What every model of the library refuses, keeps while it refuses, and tells about itself."""

import functools

import keras
import numpy as np
import pytest
import small_models as small
from small_models import assert_close, build, call, expected_output, numpy

import keras_vit
from keras_vit.models.image_model import require_spec

BACKEND = keras.backend.backend()
LABELS = np.array([3, 0])
SHAPE = (24, 40, 3)

WRONG = {
    "height": (2, 32, 40, 3),
    "width": (2, 24, 48, 3),
    "swapped": (2, 40, 24, 3),
    "channels": (2, 24, 40, 1),
    "channels_first": (2, 3, 24, 40),
    "no_batch": (24, 40, 3),
    "no_channels": (2, 24, 40),
    "sequence": (1, 2, 24, 40, 3),
}

METHODS = {
    "fit": lambda model, images: model.fit(images, labels(images), verbose=0),
    "evaluate": lambda model, images: model.evaluate(images, labels(images), verbose=0),
    "predict": lambda model, images: model.predict(images, verbose=0),
    "train_on_batch": lambda model, images: model.train_on_batch(images, labels(images)),
    "test_on_batch": lambda model, images: model.test_on_batch(images, labels(images)),
    "predict_on_batch": lambda model, images: model.predict_on_batch(images),
}


def labels(images):
    return np.zeros(len(images), "int32")


@pytest.fixture(scope="module")
def trainable():
    """A compiled model that the tests train on; they look at what changes, not at what it is."""
    variant = build(num_layers=1)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    variant.model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss)
    return variant


def assert_works(variant):
    """The model predicts what the reference computes from its present weights, and trains."""
    present = variant._replace(weights=small.values(variant.model))
    wanted = expected_output(present)
    assert_close(variant.model.predict(variant.images, verbose=0), wanted)
    history = variant.model.fit(variant.images, LABELS, verbose=0).history
    assert np.isfinite(history["loss"]).all()


# --- Images that do not fit --------------------------------------------------------------------


@pytest.mark.parametrize("wrong", WRONG)
def test_call_refuses_other_images(wrong):
    model = small.variant("plain").model
    with pytest.raises(ValueError) as raised:
        model(np.zeros(WRONG[wrong], "float32"))
    message = str(raised.value)
    assert "takes images (batch, 24, 40, 3)" in message
    assert f"Received: shape={WRONG[wrong]}" in message
    advice = {"channels_first": "transpose the images by `(0, 2, 3, 1)`"}
    assert advice.get(wrong, "keras_vit.resize(model, image_size=...)") in message


@pytest.mark.parametrize("wrong", ["width", "no_channels"])
@pytest.mark.parametrize("method", METHODS)
def test_no_method_takes_other_images_or_loses_the_weights(trainable, method, wrong):
    before = small.values(trainable.model)
    with pytest.raises(ValueError, match=r"takes images \(batch, 24, 40, 3\)"):
        METHODS[method](trainable.model, np.zeros(WRONG[wrong], "float32"))
    small.assert_equal(small.values(trainable.model), before)
    assert_works(trainable)


class SecondIsWrong(keras.utils.PyDataset):
    """A good batch, then one of another width."""

    def __init__(self, images):
        super().__init__()
        self.images = images

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return (self.images if index == 0 else np.zeros(WRONG["width"], "float32")), LABELS


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_weights_survive_a_second_batch_that_is_refused(trainable, method):
    options = {"shuffle": False} if method == "fit" else {}
    before = small.values(trainable.model)
    with pytest.raises(ValueError, match=r"takes images \(batch, 24, 40, 3\)"):
        getattr(trainable.model, method)(SecondIsWrong(trainable.images), verbose=0, **options)
    after = small.values(trainable.model)
    if method == "fit" and BACKEND != "tensorflow":  # the first batch counts
        assert np.abs(after["head/bias"] - before["head/bias"]).max() > 0
        assert all(np.isfinite(value).all() for value in after.values())
    else:  # TensorFlow looks at both before it begins
        small.assert_equal(after, before)
    assert_works(trainable)


def tf_dataset(shape, declared):
    tf = pytest.importorskip("tensorflow")
    images = np.random.default_rng(0).normal(size=(4, *shape)).astype("float32")
    signature = (tf.TensorSpec(declared, tf.float32), tf.TensorSpec((None,), tf.int32))
    dataset = tf.data.Dataset.from_generator(
        lambda: ((images[i : i + 2], LABELS) for i in (0, 2)), output_signature=signature
    )
    return dataset.apply(tf.data.experimental.assert_cardinality(2))


def test_a_dataset_of_other_images_is_refused(trainable):
    dataset = tf_dataset((24, 48, 3), (None, 24, 48, 3))
    with pytest.raises(ValueError, match=r"takes images \(batch, 24, 40, 3\).*Received: "):
        trainable.model.fit(dataset, verbose=0)
    with pytest.raises(ValueError, match=r"takes images \(batch, 24, 40, 3\).*Received: "):
        trainable.model.predict(dataset.map(lambda images, _: images), verbose=0)
    assert_works(trainable)


@pytest.mark.parametrize("declared", [(None, None, None, 3), None], ids=["sizes", "rank"])
def test_a_dataset_that_hides_its_shape(trainable, declared):
    # TensorFlow compiles for the declared shape, so it cannot know that the images fit. On the
    # other backends the images themselves arrive, and these fit.
    dataset = tf_dataset(SHAPE, declared)
    if BACKEND == "tensorflow":
        with pytest.raises(ValueError, match="height, width and channels known.*Received: shape="):
            trainable.model.fit(dataset, verbose=0)
    else:
        assert np.isfinite(trainable.model.fit(dataset, verbose=0).history["loss"]).all()
    hidden = tf_dataset((24, 48, 3), declared)
    with pytest.raises(ValueError, match=r"takes images \(batch, 24, 40, 3\)"):
        trainable.model.evaluate(hidden, verbose=0)
    assert_works(trainable)


@pytest.mark.skipif(BACKEND != "torch", reason="a DataLoader is the loader of PyTorch")
def test_a_data_loader_of_other_images_is_refused(trainable):
    torch = pytest.importorskip("torch")

    def loader(*shape):
        images = torch.zeros(4, *shape)
        data = torch.utils.data.TensorDataset(images, torch.zeros(4, dtype=torch.int64))
        return torch.utils.data.DataLoader(data, batch_size=2)

    with pytest.raises(ValueError, match=r"takes images \(batch, 24, 40, 3\).*3, 24, 40"):
        trainable.model.fit(loader(3, 24, 40), verbose=0)
    assert_works(trainable)
    assert np.isfinite(trainable.model.evaluate(loader(*SHAPE), verbose=0))


# --- Inputs ------------------------------------------------------------------------------------


def test_a_model_may_begin_at_several_inputs():
    inputs = [keras.Input((24, 40, channels)) for channels in (1, 2)]
    variant = build(input_tensor=keras.layers.Concatenate()(inputs))
    parts = [variant.images[..., :1], variant.images[..., 1:]]
    assert_close(numpy(variant.model(parts)), expected_output(variant))


# --- The spec ----------------------------------------------------------------------------------


def test_a_model_without_a_spec_is_refused_with_the_way_out():
    variant = small.variant("plain")
    clone = keras.models.clone_model(variant.model)
    part = keras.Model(variant.model.input, variant.model.get_layer("norm").output)
    plain = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    for model in (clone, part, plain):
        with pytest.raises(ValueError) as raised:
            keras_vit.resize(model, image_size=(32, 40))
        message = str(raised.value)
        assert message.startswith("`resize` needs a model made by keras_vit")
        assert "`type(model).from_config(model.get_config())`" in message
    with pytest.raises(ValueError, match="`analysis.attention` needs a model made by keras_vit"):
        keras_vit.analysis.attention(clone, variant.images)


def test_the_way_out_works():
    model = small.variant("plain").model
    clone = type(model).from_config(model.get_config())
    assert require_spec(clone, "anything") == model.spec
    assert small.shapes(clone) == small.shapes(model)
    assert clone.spec is not None and clone.get_layer("block_0") is not model.get_layer("block_0")


def test_a_clone_computes_the_same_without_its_spec(tmp_path):
    variant = small.variant("plain")
    clone = keras.models.clone_model(variant.model)
    clone.set_weights(variant.model.get_weights())
    assert clone.spec is None
    assert_close(call(clone, variant.images), expected_output(variant))
    clone.save(tmp_path / "clone.keras")
    assert keras.saving.load_model(tmp_path / "clone.keras").spec is None


def test_float16_scales_the_loss_also_after_a_file(tmp_path):
    model = build(num_layers=1, dtype="mixed_float16").model
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01), loss, run_eagerly=True)
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    before = numpy(model.get_layer("head").bias)
    model.fit(np.zeros((2, *SHAPE), "float32"), LABELS, epochs=2, verbose=0)
    assert np.abs(numpy(model.get_layer("head").bias) - before).max() > 0  # no step was skipped
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert isinstance(again.optimizer, keras.optimizers.LossScaleOptimizer)
    assert isinstance(again.optimizer.inner_optimizer, keras.optimizers.SGD)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="the others compile by themselves")
def test_pytorch_compiles_a_step_once(monkeypatch, onednn):
    import torch
    import torch._dynamo.config
    from torch._dynamo.utils import counters

    torch.compiler.reset()  # of other tests
    counters.clear()
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    model = build(num_layers=1).model
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras_vit.optimizers.AdamW(0.01, global_clipnorm=1.0, use_ema=True)
    model.compile(optimizer, loss, jit_compile=True)
    images, labels = np.ones((6, *model.input_shape[1:]), "float32"), np.arange(6) % 2
    with torch._dynamo.config.patch(error_on_recompile=True):
        model.fit(images, labels, batch_size=2, verbose=0)  # three steps
    assert counters["stats"]["unique_graphs"] > 0  # or nothing was compiled at all


def test_the_loss_is_not_scaled_where_nobody_needs_it():
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = build(num_layers=1, dtype="mixed_float16").model
    model.compile("sgd", loss, auto_scale_loss=False)
    assert isinstance(model.optimizer, keras.optimizers.SGD)
    model = build(num_layers=1, dtype="mixed_bfloat16").model
    model.compile("sgd", loss)
    assert isinstance(model.optimizer, keras.optimizers.SGD)
