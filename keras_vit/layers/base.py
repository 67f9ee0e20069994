"""The base of every layer here: a config that is the constructor's arguments."""

import inspect

import keras


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
