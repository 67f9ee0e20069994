"""What the specs of all families have in common."""

import dataclasses
import numbers

import keras

from keras_vit.models.preprocessing import Preprocessing


class ImageSpec:
    """Base of the frozen dataclasses that describe a model, each of one family.

    A subclass has the fields `image_size`, `channels`, `classes`, `classifier_activation`,
    `preprocessing`, `class_names` and `dtype` among its own, all plain values, and says its
    `family`.
    """

    family = None

    def to_dict(self):
        """The family and the fields as plain values, for a config."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["preprocessing"] = dataclasses.asdict(self.preprocessing)
        return {"family": self.family, **fields}

    @classmethod
    def from_dict(cls, fields):
        """The spec of `to_dict`'s result, also after a trip through JSON."""
        fields = {key: tuple(v) if isinstance(v, list) else v for key, v in fields.items()}
        fields.pop("family", None)
        fields["preprocessing"] = Preprocessing(**fields["preprocessing"])
        return cls(**fields)

    def _check_facts(self):
        self._set("classifier_activation", _activation_name(self.classifier_activation))
        self.preprocessing.check_channels(self.channels)
        if self.class_names is not None:
            self._set("class_names", tuple(self.class_names))
            if len(self.class_names) != self.classes:
                raise ValueError(
                    "There must be one class name a class. Received: "
                    f"{len(self.class_names)} names, classes={self.classes}"
                )

    def _set(self, name, value):
        object.__setattr__(self, name, value)  # the dataclass is frozen once it is made


def _activation_name(activation):
    """The name of an activation that may be given as Keras's function, for a config."""
    if activation is None or isinstance(activation, str):
        return activation
    name = getattr(activation, "__name__", "")
    if getattr(keras.activations, name, None) is not activation:
        raise ValueError(
            "`classifier_activation` must be the name of one of Keras's activations, or None for "
            f"logits. Received: classifier_activation={activation!r}. Build the model with None "
            "and put a layer of your own on top."
        )
    return name


def is_number(value):
    """Whether it is a real number, and not True or False."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
