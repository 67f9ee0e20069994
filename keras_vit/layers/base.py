"""The base of every layer here: a config that is the constructor's arguments."""

import inspect

import keras

from keras_vit.layers import initial_values


class Layer(keras.layers.Layer):
    """A Keras layer whose config is read back from its constructor's arguments.

    Keras writes such configs by itself only while every argument is a plain value. A dtype policy
    object, as Keras passes it when a quantised model is loaded, stops that, so the arguments are
    read here from the attributes of the same names. A subclass keeps each argument, unchanged, in
    an attribute of its name, and takes `**kwargs` for `name`, `dtype` and `trainable`.
    """

    def get_config(self):
        config = super().get_config()
        for cls in type(self).__mro__:
            if cls is Layer:
                return config
            init = cls.__dict__.get("__init__")
            for parameter in inspect.signature(init).parameters.values() if init else ():
                if parameter.name != "self" and parameter.kind is not parameter.VAR_KEYWORD:
                    config.setdefault(parameter.name, getattr(self, parameter.name))

    def add_weight(self, *args, initializer=None, **kwargs):
        return super().add_weight(*args, initializer=initial_values.chosen(initializer), **kwargs)

    # Only the outermost layer's config is saved, so it must say which of its parts are frozen, and
    # which are quantised: they have other variables then. The parts are made in float and quantised
    # before loading.

    def get_build_config(self):
        config, parts = super().get_build_config(), self._parts()
        said = {
            "quantized": {
                name: part.dtype_policy.name
                for name, part in parts.items()
                if part.quantization_mode is not None
            },
            # Of a frozen layer all parts are, and thaw with it.
            "frozen": [name for name, p in parts.items() if self.trainable and not p.trainable],
        }
        said = {key: names for key, names in said.items() if names}
        return {**config, **said} if said else config  # None of a layer that is not built

    def build_from_config(self, config):
        super().build_from_config(config)
        parts = self._parts()
        for name, policy in config.get("quantized", {}).items():
            parts[name].dtype_policy = policy
        for name in config.get("frozen", ()):
            parts[name].trainable = False

    def _parts(self):
        """{path below this layer: layer}; a dropout has no path before its first call."""
        layers = self._flatten_layers(include_self=False)
        return {layer.path.removeprefix(f"{self.path}/"): layer for layer in layers if layer.path}
