"""Averages of weights: in the model while it is evaluated or saved, and not while it trains."""

import contextlib

import keras


def has_averages(model):
    """Whether the model's optimizer keeps averages."""
    return bool(_inner(model).use_ema)


@contextlib.contextmanager
def averaged(model):
    """A context in which the model's weights are their averages; after it they are as before.

    Keras's `SwapEMAWeights` adds and subtracts on TensorFlow, which changes the last digits of the
    weights in training; a resumed run would not end as one that was never stopped.
    """
    if not has_averages(model):
        yield
        return
    averages = _inner(model).averages()
    variables = model.trainable_variables
    # Copies: on JAX an evaluation gives its arrays away. On the devices, where they keep their
    # places; a variable may be split over several processes.
    raw = [keras.ops.copy(variable) for variable in variables]
    for variable in variables:
        variable.assign(keras.ops.copy(averages[variable.path]))
    try:
        yield
    finally:
        for variable, value in zip(variables, raw, strict=True):
            variable.assign(value)


@contextlib.contextmanager
def not_finalized(model):
    """A context in which the end of `fit` leaves the weights as they are.

    Keras puts the averages in their place there, though the run may go on in another `fit`.
    """
    optimizer = model.optimizer
    optimizer.finalize_variable_values = lambda variables: None
    try:
        yield
    finally:
        del optimizer.finalize_variable_values  # that of its class again


class EvaluateAverages(keras.callbacks.Callback):
    """Validates the averages of the weights, where the optimizer keeps them."""

    def on_test_begin(self, logs=None):
        self._context = averaged(self.model)
        self._context.__enter__()

    def on_test_end(self, logs=None):
        self._context.__exit__(None, None, None)


def _inner(model):
    # With float16 the optimizer that scales the loss is around it.
    return getattr(model.optimizer, "inner_optimizer", model.optimizer)
