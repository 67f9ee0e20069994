"""Learning rates that warm up and then decay, as the paper's code has them.

All count steps from 0: the first update has step 0, and with a warm-up the rate 0. `total_steps` is
the true total, warm-up included, and the last value is reached at `total_steps`; from there on the
rate stays. The rate of a long run keeps its digits, because steps are subtracted as integers:
float32 cannot tell 16,777,216 from the step after.
"""

import math

import keras
from keras import ops

from keras_vit.layers import checks


class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Base of the schedules: a linear warm-up from 0, times what the subclass decays to.

    A subclass has `_decayed(step)`, the rate without warm-up, as a float32 tensor, and says its
    further arguments in `_own_config`.
    """

    def __init__(self, learning_rate, total_steps, warmup_steps=0, name=None):
        self.learning_rate = checks.positive_number(learning_rate, "learning_rate")
        self.total_steps = checks.positive_integer(total_steps, "total_steps")
        self.warmup_steps = checks.positive_integer(warmup_steps, "warmup_steps", minimum=0)
        self.name = name
        if self.warmup_steps >= self.total_steps:
            raise ValueError(
                "`total_steps` includes the warm-up and must be more than it. "
                f"Received: total_steps={total_steps}, warmup_steps={warmup_steps}"
            )

    def __call__(self, step):
        step = ops.cast(step, "int32")
        rate = self._decayed(step)
        return rate * _share(step, self.warmup_steps) if self.warmup_steps else rate

    def get_config(self):
        return {
            "learning_rate": self.learning_rate,
            "total_steps": self.total_steps,
            "warmup_steps": self.warmup_steps,
            "name": self.name,
            **self._own_config(),
        }

    def _decayed(self, step):
        raise NotImplementedError

    def _own_config(self):
        return {}


class WarmupToFinal(WarmupSchedule):
    """Base of the schedules that come down to `final_learning_rate` at `total_steps`.

    A subclass has `_height(remaining)`: where the rate is between the last value, 0, and the
    highest, 1, when this share of the steps after the warm-up remains.
    """

    def __init__(
        self, learning_rate, total_steps, warmup_steps=0, final_learning_rate=0.0, name=None
    ):
        super().__init__(learning_rate, total_steps, warmup_steps, name)
        self.final_learning_rate = checks.number(final_learning_rate, "final_learning_rate")
        if self.final_learning_rate < 0:
            raise ValueError(
                "`final_learning_rate` must not be negative. "
                f"Received: final_learning_rate={final_learning_rate}"
            )

    def _decayed(self, step):
        remaining = _share(self.total_steps - step, self.total_steps - self.warmup_steps)
        span = self.learning_rate - self.final_learning_rate
        return self.final_learning_rate + span * self._height(remaining)

    def _height(self, remaining):
        raise NotImplementedError

    def _own_config(self):
        return {"final_learning_rate": self.final_learning_rate}


@keras.saving.register_keras_serializable(package="keras_vit")
class WarmupLinear(WarmupToFinal):
    """Linear decay to `final_learning_rate` (table 3 of arXiv 2010.11929, ImageNet-21k and JFT).

    Args:
        learning_rate: Float, the highest rate.
        total_steps: Integer, all updates of the run.
        warmup_steps: Integer, how many of them warm up.
        final_learning_rate: Float, the rate at `total_steps`; the paper's code has 1e-5.
        name: String.
    """

    def _height(self, remaining):
        return remaining


@keras.saving.register_keras_serializable(package="keras_vit")
class WarmupCosine(WarmupToFinal):
    """Half a cosine down to `final_learning_rate` (ImageNet and all fine-tuning of the paper).

    Args:
        learning_rate: Float, the highest rate.
        total_steps: Integer, all updates of the run.
        warmup_steps: Integer, how many of them warm up.
        final_learning_rate: Float, the rate at `total_steps`.
        name: String.

    Example:

    >>> schedule = keras_vit.optimizers.WarmupCosine(3e-3, total_steps=10_000, warmup_steps=500)
    """

    def _height(self, remaining):
        # (1 + cos(pi * t)) / 2, in the form that keeps its digits where it nears 0.
        return ops.square(ops.sin(0.5 * math.pi * remaining))


@keras.saving.register_keras_serializable(package="keras_vit")
class WarmupRsqrt(WarmupSchedule):
    """Decay by 1 / sqrt(1 + t / timescale), then a linear cooldown (arXiv 2106.04560).

    Such a run may be prolonged: until the cooldown the rate does not depend on the total.

    Args:
        learning_rate: Float, the highest rate.
        total_steps: Integer, all updates of the run.
        warmup_steps: Integer, how many of them warm up.
        timescale: Integer, steps after the warm-up until the rate has fallen to 1 / sqrt(2).
        cooldown_steps: Integer, the last steps, in which the rate falls to 0.
        name: String.
    """

    def __init__(
        self,
        learning_rate,
        total_steps,
        warmup_steps=0,
        timescale=10_000,
        cooldown_steps=0,
        name=None,
    ):
        super().__init__(learning_rate, total_steps, warmup_steps, name)
        self.timescale = checks.positive_integer(timescale, "timescale")
        self.cooldown_steps = checks.positive_integer(cooldown_steps, "cooldown_steps", minimum=0)
        if self.cooldown_steps > self.total_steps - self.warmup_steps:
            raise ValueError(
                "`cooldown_steps` must fit between the warm-up and `total_steps`. Received: "
                f"cooldown_steps={cooldown_steps}, warmup_steps={warmup_steps}, "
                f"total_steps={total_steps}"
            )

    def _decayed(self, step):
        end = self.total_steps - self.warmup_steps
        after = ops.cast(ops.clip(step - self.warmup_steps, 0, end), "float32")
        rate = self.learning_rate / ops.sqrt(1.0 + after / self.timescale)
        if self.cooldown_steps:
            rate = rate * _share(self.total_steps - step, self.cooldown_steps)
        return rate

    def _own_config(self):
        return {"timescale": self.timescale, "cooldown_steps": self.cooldown_steps}


@keras.saving.register_keras_serializable(package="keras_vit")
class WarmupSteps(WarmupSchedule):
    """A stair: the rate is multiplied by `factor` at each boundary (BiT, arXiv 1912.11370).

    Args:
        learning_rate: Float, the highest rate.
        total_steps: Integer, all updates of the run.
        warmup_steps: Integer, how many of them warm up.
        boundaries: Increasing integers, the first steps with the next lower rate.
        factor: Float.
        name: String.
    """

    def __init__(
        self, learning_rate, total_steps, warmup_steps=0, boundaries=(), factor=0.1, name=None
    ):
        super().__init__(learning_rate, total_steps, warmup_steps, name)
        self.boundaries = tuple(checks.positive_integer(b, "boundaries") for b in boundaries)
        self.factor = checks.positive_number(factor, "factor")
        if sorted(set(self.boundaries)) != list(self.boundaries):
            raise ValueError(f"`boundaries` must increase. Received: boundaries={boundaries!r}")
        if self.boundaries and self.boundaries[-1] > self.total_steps:
            raise ValueError(
                "`boundaries` must lie within `total_steps`. "
                f"Received: boundaries={boundaries!r}, total_steps={total_steps}"
            )

    def _decayed(self, step):
        rate = ops.full((), self.learning_rate, "float32")
        for k, boundary in enumerate(self.boundaries, start=1):
            rate = ops.where(step >= boundary, self.learning_rate * self.factor**k, rate)
        return rate

    def _own_config(self):
        return {"boundaries": list(self.boundaries), "factor": self.factor}


def _share(steps, whole):
    """steps / whole between 0 and 1, as float32."""
    return ops.cast(ops.clip(steps, 0, whole), "float32") / whole
