"""Training that survives errors and changes of backend, and that PyTorch compiles once."""

import contextlib

import keras


class SafeTraining:
    """Mixed into a `keras.Model`, before it: keeps weights when `fit` and its kin raise.

    It also compiles for every backend after loading, and on PyTorch once for all steps.
    """

    def get_compile_config(self):
        config = super().get_compile_config()
        # Keras writes what `jit_compile="auto"` became on this backend. On another it may be wrong:
        # uncompiled steps are slow on JAX, and compiled ones need a C++ compiler on PyTorch.
        if config and config["jit_compile"] == keras.Sequential().jit_compile:
            config["jit_compile"] = "auto"
        return config

    def compile_from_config(self, config):
        # Keras leaves this out where `compile` is overridden.
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def fit(self, *args, **kwargs):
        with self._usable_after_errors():
            return super().fit(*args, **kwargs)

    def evaluate(self, *args, **kwargs):
        with self._usable_after_errors():
            return super().evaluate(*args, **kwargs)

    def predict(self, *args, **kwargs):
        with self._usable_after_errors():
            return super().predict(*args, **kwargs)

    def make_train_function(self, force=False):
        if keras.backend.backend() == "torch" and self.jit_compile:
            self._begin_as_after_a_step()
        return super().make_train_function(force)

    def _begin_as_after_a_step(self):
        """Else PyTorch compiles two steps: a first without gradients and optimizer, and a second.

        Compiling takes minutes.
        """
        self.optimizer.build(self.trainable_variables)
        for variable in self.trainable_variables:
            if variable.value.grad is None:
                variable.value.grad = keras.ops.zeros_like(variable.value)

    # On JAX, Keras empties the variables while fit, evaluate and predict run, and where a batch
    # raises it leaves them empty: all weights are lost. The two methods below keep them. Emptying
    # saves nothing, as the arrays are donated to the step anyway.
    # https://github.com/keras-team/keras/pull/21019 mended only the later batches of `fit`.
    # On TensorFlow, a step whose first trace raised cannot make the optimizer's variables any more.

    def _purge_model_variables(self, **kwargs):
        pass

    @contextlib.contextmanager
    def _usable_after_errors(self):
        try:
            yield
        except BaseException:
            if keras.backend.backend() == "jax":
                self.jax_state_sync()  # what the last batch that ended left
            elif keras.backend.backend() == "tensorflow" and not self._has_trained():
                self.train_function = None  # traced anew by the next fit
            raise

    def _has_trained(self):
        return self.compiled and self.optimizer.built
