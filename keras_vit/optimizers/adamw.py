"""AdamW that decays kernels only, and still does after it was loaded from a file."""

import re

import keras


@keras.saving.register_keras_serializable(package="keras_vit")
class AdamW(keras.optimizers.AdamW):
    """Keras's AdamW with the choice of decayed variables in its config.

    Keras forgets `exclude_from_weight_decay` when a model is saved, and on PyTorch writes a class
    into the file that the other backends cannot load. This one keeps its choice and loads on every
    backend. The decay is decoupled and times the learning rate: w <- w - learning_rate *
    weight_decay * w, as the paper's 0.1 and 0.03 (arXiv 2106.10270, section 3.4).

    Args:
        learning_rate: Float, schedule or callable.
        weight_decay: Float.
        decay: Regular expression, or several, searched in each variable's path. Only variables
            that one of them matches decay. The default matches kernels, so that biases, norms,
            positions, the class token and register tokens never decay.
        **kwargs: As of `keras.optimizers.AdamW`.

    Raises:
        ValueError: when the optimizer meets its variables, if an expression matches none.

    Example:

    >>> model.compile(keras_vit.optimizers.AdamW(1e-3, weight_decay=0.1, global_clipnorm=1.0))
    """

    def __init__(self, learning_rate=0.001, weight_decay=0.004, decay=r"/kernel$", **kwargs):
        super().__init__(learning_rate=learning_rate, weight_decay=weight_decay, **kwargs)
        self.decay = (decay,) if isinstance(decay, str) else tuple(decay)

    def build(self, variables):
        if not self.built:
            self.exclude_from_weight_decay(var_list=self._undecayed(variables))
        super().build(variables)

    def get_config(self):
        return {**super().get_config(), "decay": list(self.decay)}

    def _undecayed(self, variables):
        paths = [variable.path for variable in variables]
        for pattern in self.decay:
            if not any(re.search(pattern, path) for path in paths):
                raise ValueError(
                    "Each expression of `decay` must match a variable's path. Received: "
                    f"decay={pattern!r}, which matches none of {paths}"
                )
        return [
            variable
            for variable in variables
            if not any(re.search(pattern, variable.path) for pattern in self.decay)
        ]
