"""The families of models, by the word in a saved spec."""

from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.spec import ViTSpec

FAMILIES = {spec.family: spec for spec in (ViTSpec, BiTSpec)}


def spec_from_dict(fields):
    """The spec of any family, from what its `to_dict` gave.

    Raises:
        ValueError: if there is no such family.
    """
    family = fields.get("family")
    if family not in FAMILIES:
        raise ValueError(
            f"The family of a saved model must be one of {', '.join(map(repr, FAMILIES))}. "
            f"Received: family={family!r}. A newer version of keras_vit may know it."
        )
    return FAMILIES[family].from_dict(fields)
