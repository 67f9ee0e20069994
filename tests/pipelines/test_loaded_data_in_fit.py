"""What `fit` and `evaluate` of each backend make of the data: NumPy foresees the result."""

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow")

from image_files import model_of
from quick_compilation import quick_compilation  # noqa: F401

import keras_vit
import pipelines
from pipelines.augment import Augment
from pipelines.sources.arrays import arrays

RATE = 0.02
SPEC = model_of(2, image_size=(3, 4), include_preprocessing=False)
# Mixed, cropped, flipped and erased anew in every epoch: any other order or seed would show.
AUGMENT = Augment(mixup=0.8, erasing=0.5)


def source(count, seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, 5, 6, 3), "uint8")
    return arrays(images, rng.permutation(np.arange(count) % 2), ("a", "b"))


def linear_model(weights=None):
    """36 inputs and two outputs, trained by plain gradient descent."""
    inputs = keras.Input((3, 4, 3))
    dense = keras.layers.Dense(2, use_bias=False, kernel_initializer="zeros")
    model = keras.Model(inputs, dense(keras.layers.Flatten()(inputs)))
    if weights is not None:
        dense.kernel.assign(weights)
    model.compile(keras.optimizers.SGD(RATE), "mse", weighted_metrics=["mse", "accuracy"])
    return model


def descend(batches, weights):
    """The weights after a step for each batch, in float64."""
    for images, labels in batches:
        x = np.float64(images).reshape(len(images), -1)
        weights = weights - RATE * 2 / labels.size * x.T @ (x @ weights - labels)
    return weights


def load(data, **arguments):
    return pipelines.load(data, model=SPEC, one_hot=True, **{"batch_size": 4, **arguments})


def kernel(model):
    return keras.ops.convert_to_numpy(model.trainable_variables[0])


def test_fit_trains_on_the_announced_batches_and_goes_on_where_it_was_stopped():
    data, validation = source(14), source(5, seed=1)  # three steps an epoch
    batches = load(data, augment=AUGMENT, validation=False, repeat=True)[0].take(9)
    batches = list(batches.as_numpy_iterator())
    start = np.zeros((36, 2))

    model = linear_model()
    train, evaluated = load(data, augment=AUGMENT, validation=validation)
    model.fit(train, validation_data=evaluated, epochs=2, verbose=0)
    np.testing.assert_allclose(kernel(model), descend(batches[:6], start), atol=1e-5)
    model.fit(train, epochs=1, verbose=0)
    np.testing.assert_allclose(kernel(model), descend(batches, start), atol=1e-5)

    stopped = linear_model()
    train, _ = load(data, augment=AUGMENT, validation=False, repeat=True)
    stopped.fit(train, steps_per_epoch=4, verbose=0)
    np.testing.assert_allclose(kernel(stopped), descend(batches[:4], start), atol=1e-5)
    resumed = linear_model(kernel(stopped))
    train, _ = load(data, augment=AUGMENT, validation=False, repeat=True, start_step=4)
    resumed.fit(train, steps_per_epoch=5, verbose=0)
    np.testing.assert_allclose(kernel(resumed), descend(batches, start), atol=1e-5)
    np.testing.assert_array_equal(kernel(resumed), kernel(trained_at_once(data, 9)))


def trained_at_once(data, steps):
    model = linear_model()
    train, _ = load(data, augment=AUGMENT, validation=False, repeat=True)
    model.fit(train, steps_per_epoch=steps, verbose=0)
    return model


@pytest.mark.parametrize("size", [1, 7, 8, 9, 16])
def test_padded_evaluation_is_the_count_by_hand(size):
    data = source(size)
    weights = np.random.default_rng(2).normal(size=(36, 2)).astype("float32")
    _, evaluated = load(source(8), validation=data, batch_size=8)
    model = linear_model(weights)
    results = model.evaluate(evaluated, return_dict=True, verbose=0)

    images = [x[m > 0] for x, _, m in evaluated.as_numpy_iterator()]
    outputs = np.concatenate(images).reshape(size, -1) @ weights
    labels = np.eye(2)[data.labels]
    exact = np.square(outputs - labels).mean()
    assert results["mse"] == pytest.approx(exact, rel=1e-5)
    # Keras divides by all rows, as docs/data.md says.
    assert results["loss"] == pytest.approx(exact * size / (-(-size // 8) * 8), rel=1e-5)
    assert results["accuracy"] == pytest.approx((outputs.argmax(-1) == data.labels).mean())
    predicted = model.predict(evaluated, verbose=0)
    np.testing.assert_allclose(predicted[:size], outputs, atol=1e-4)


def test_a_vision_transformer_trains_on_it():
    model = keras_vit.VisionTransformer(
        image_size=(4, 6),
        patch_size=2,
        num_layers=1,
        num_heads=1,
        hidden_dim=4,
        mlp_dim=4,
        classes=2,
        include_preprocessing=True,
    )
    model.compile("sgd", "categorical_crossentropy", weighted_metrics=["accuracy"])
    train, validation = pipelines.load(
        source(20), model=model, batch_size=4, augment=Augment(label_smoothing=0.1)
    )
    history = model.fit(train, validation_data=validation, epochs=1, verbose=0).history
    assert np.isfinite(history["loss"]).all() and 0 <= history["val_accuracy"][0] <= 1
