"""AdamW that decays kernels only, and still does after it was loaded from a file."""

import keras

from keras_vit.optimizers.by_variable import KERNELS, ByVariable


@keras.saving.register_keras_serializable(package="keras_vit")
class AdamW(ByVariable, keras.optimizers.AdamW):
    """Keras's AdamW with the choice of decayed variables in its config.

    Keras forgets `exclude_from_weight_decay` when a model is saved, and on PyTorch writes a class
    into the file that the other backends cannot load. This one keeps its choice and loads on every
    backend. The decay is decoupled and times the learning rate: w <- w - learning_rate *
    weight_decay * w, as the paper's 0.1 and 0.03 (arXiv 2106.10270, section 3.4). With
    `weight_decay=0.0` it is Adam.

    With `gradient_accumulation_steps` an update is that of one larger batch: schedules and averages
    advance with each update. Keras's own advance with each small batch.

    Args:
        learning_rate: Float, schedule or callable.
        weight_decay: Float.
        decay: Regular expression, or several, searched in each variable's path. Only variables
            that one of them matches decay. The default matches kernels, so that biases, norms,
            positions, the class token and register tokens never decay.
        rate_factors: None, or a dict of regular expressions to floats: the learning rate and the
            decay of the variables that an expression matches are times its float. See
            `keras_vit.optimizers.layerwise_factors`.
        **kwargs: As of `keras.optimizers.AdamW`.

    Raises:
        ValueError: when the optimizer meets its variables, if an expression that was given matches
            none, or a variable has two factors.

    Example:

    >>> model.compile(keras_vit.optimizers.AdamW(1e-3, weight_decay=0.1, global_clipnorm=1.0))
    """

    torch_update = "adam"

    def __init__(
        self,
        learning_rate=0.001,
        weight_decay=0.004,
        decay=KERNELS,
        rate_factors=None,
        **kwargs,
    ):
        super().__init__(
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            decay=decay,
            rate_factors=rate_factors,
            **kwargs,
        )
