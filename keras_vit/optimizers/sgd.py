"""SGD with the momentum of the paper's code, and decay of kernels only."""

import keras
from keras import ops

from keras_vit.optimizers.by_variable import KERNELS, ByVariable


@keras.saving.register_keras_serializable(package="keras_vit")
class SGD(ByVariable, keras.optimizers.SGD):
    """SGD with a momentum that does not know the learning rate, as the paper's code has it.

    v <- momentum * v + gradient; w <- w - learning_rate * v. Keras's own SGD takes the learning
    rate into v, so that steps of the past keep the rate that they had, which is another rule
    whenever the rate changes. At a constant rate both are the same.

    Args:
        learning_rate: Float, schedule or callable.
        momentum: Float.
        weight_decay: None or a float; decoupled and times the learning rate, as in
            `keras_vit.optimizers.AdamW`. The paper fine-tunes without.
        decay: As in `keras_vit.optimizers.AdamW`; of no effect without `weight_decay`.
        rate_factors: As in `keras_vit.optimizers.AdamW`.
        **kwargs: As of `keras.optimizers.SGD`.

    Raises:
        ValueError: as `keras_vit.optimizers.AdamW`.

    Example:

    >>> model.compile(keras_vit.optimizers.SGD(0.03, momentum=0.9, global_clipnorm=1.0))
    """

    torch_update = "sgd"

    def __init__(
        self,
        learning_rate=0.01,
        momentum=0.0,
        weight_decay=None,
        decay=KERNELS,
        rate_factors=None,
        **kwargs,
    ):
        super().__init__(
            learning_rate=learning_rate,
            momentum=momentum,
            weight_decay=weight_decay,
            decay=decay,
            rate_factors=rate_factors,
            **kwargs,
        )

    def update_step(self, gradient, variable, learning_rate):
        rate = ops.cast(learning_rate * self._factor(variable), variable.dtype)
        step = ops.cast(gradient, variable.dtype)
        if self.momentum:
            velocity = self.momentums[self._get_variable_index(variable)]
            self.assign(velocity, velocity * self.momentum + step)
            step = step + velocity * self.momentum if self.nesterov else velocity
        self.assign_sub(variable, step * rate)
