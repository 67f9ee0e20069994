"""What the optimizers here add to Keras's: they treat variables by their paths."""

import re

import keras

from keras_vit.layers import checks
from keras_vit.layers.platform import BACKEND

if BACKEND == "torch":
    from keras_vit.optimizers import torch_updates

KERNELS = r"/kernel$"


class ByVariable:
    """To be mixed in before a Keras optimizer: decay and learning rates by path.

    It also makes gradient accumulation equal to one larger batch in every respect. Keras's
    schedules advance with each small batch, and so do its averages of weights; here both advance
    with each update.

    Args:
        decay: Regular expression, or several, searched in each variable's path. Only variables
            that one of them matches decay: w <- w - learning_rate * weight_decay * w.
        rate_factors: None, or a dict of regular expressions to floats: the learning rate of the
            variables that an expression matches is times its float, and so is their decay.
        **kwargs: Of the optimizer.
    """

    torch_update = None  # a function of `torch_updates` that does what `update_step` does

    def __init__(self, *, decay=KERNELS, rate_factors=None, **kwargs):
        super().__init__(**kwargs)
        self.decay = (decay,) if isinstance(decay, str) else tuple(decay)
        self.rate_factors = {
            pattern: checks.positive_number(factor, "rate_factors")
            for pattern, factor in (rate_factors or {}).items()
        }
        self._factors = []
        self._update_together = None
        if BACKEND == "torch":
            # Not inherited: a subclass may have an `update_step` of its own.
            name = vars(type(self)).get("torch_update")
            self._update_together = name and getattr(torch_updates, name)

    def build(self, variables):
        if not self.built:
            super().exclude_from_weight_decay(var_list=self._undecayed(variables))
            self._factors = self._factors_of(variables)
            for variable in variables:
                self._use_weight_decay(variable)  # remembered: PyTorch would compile a second step
        super().build(variables)

    def exclude_from_weight_decay(self, var_list=None, var_names=None):
        """Refused, since no file would keep it: `decay` says what decays."""
        raise ValueError(
            "Which variables decay is said by the argument `decay`, which is saved with the model: "
            r"decay=r'^(?!head/).*/kernel$' leaves the head out. Received: "
            f"var_list={var_list!r}, var_names={var_names!r}"
        )

    def averages(self):
        """{path: variable} of the moving averages, beside the variables that are trained.

        Raises:
            ValueError: if the optimizer keeps none, or has not met its variables yet.
        """
        if not self.use_ema or not self.built:
            raise ValueError(
                "There are averages once an optimizer made with `use_ema=True` is built. "
                f"Received: use_ema={self.use_ema}, built={self.built}"
            )
        pairs = zip(self._trainable_variables, self._model_variables_moving_average, strict=True)
        return {variable.path: average for variable, average in pairs}

    def get_config(self):
        own = {"decay": list(self.decay), "rate_factors": dict(self.rate_factors) or None}
        return {**super().get_config(), **own}

    def _backend_update_step(self, gradients, variables, learning_rate):
        if self._update_together is None:
            super()._backend_update_step(gradients, variables, learning_rate)
            return
        factors = [self._factor(variable) for variable in variables]
        self._update_together(self, gradients, variables, learning_rate, factors)

    def update_step(self, gradient, variable, learning_rate):
        super().update_step(gradient, variable, learning_rate * self._factor(variable))

    def _factor(self, variable):
        # By index, because TensorFlow hands over its own variables, which have no path.
        return self._factors[self._get_variable_index(variable)]

    def _apply_weight_decay(self, variables):
        """As Keras's, in groups of one rate; none of them is empty, which PyTorch would refuse."""
        if not self.weight_decay:
            return
        weight_decay = self.weight_decay
        decayed = [variable for variable in variables if self._use_weight_decay(variable)]
        for factor in sorted({self._factor(variable) for variable in decayed}):
            self.weight_decay = weight_decay * factor
            super()._apply_weight_decay([v for v in decayed if self._factor(v) == factor])
        self.weight_decay = weight_decay

    def _clip_gradients(self, gradients):
        if BACKEND == "torch" and (self.global_clipnorm or 0) > 0:
            return torch_updates.clipped(gradients, self.global_clipnorm)
        return super()._clip_gradients(gradients)

    def _get_current_learning_rate(self):
        schedule = self._learning_rate
        if isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
            return schedule(self.iterations)  # updates; Keras would count small batches
        return super()._get_current_learning_rate()

    def _update_model_variables_moving_average(self, trainable_variables):
        ops, steps = keras.ops, self.gradient_accumulation_steps or 1
        # The first update starts the averages; small batches without an update leave them.
        momentum = ops.where(self.iterations == 0, 0.0, self.ema_momentum)
        momentum = ops.where((self._iterations + 1) % steps == 0, momentum, 1.0)
        averages = self._model_variables_moving_average
        if BACKEND == "torch":
            torch_updates.average(averages, trainable_variables, momentum)
            return
        for variable, average in zip(trainable_variables, averages, strict=True):
            share = ops.cast(momentum, variable.dtype)
            average.assign(share * average + (1 - share) * variable)

    def _undecayed(self, variables):
        if not self.weight_decay:
            return variables
        paths = [variable.path for variable in variables]
        for pattern in self.decay:
            if pattern != KERNELS:  # which nobody asked for: no kernel trains beside LoRA
                _check_matches(pattern, paths, "decay")
        return [
            variable
            for variable in variables
            if not any(re.search(pattern, variable.path) for pattern in self.decay)
        ]

    def _factors_of(self, variables):
        paths = [variable.path for variable in variables]
        for pattern in self.rate_factors:
            _check_matches(pattern, paths, "rate_factors")
        return [self._factor_of(path) for path in paths]

    def _factor_of(self, path):
        matching = [pattern for pattern in self.rate_factors if re.search(pattern, path)]
        if len(matching) > 1:
            raise ValueError(
                "At most one expression of `rate_factors` may match a variable's path. "
                f"Received: rate_factors with {matching}, which all match {path!r}"
            )
        return self.rate_factors[matching[0]] if matching else 1.0


def _check_matches(pattern, paths, name):
    if not any(re.search(pattern, path) for path in paths):
        raise ValueError(
            f"Each expression of `{name}` must match a variable's path. "
            f"Received: {name}={pattern!r}, which matches none of {paths}"
        )
