"""The word that says how a model is distributed."""

import dataclasses
import os
import re

VARIABLE = "KERAS_VIT_DISTRIBUTE"

GRAMMAR = (
    "'off', 'data' (every device has the whole model and a share of the batch), 'model:BxM' (B "
    "shares of the batch, M of the heads and MLPs; JAX), 'fsdp:N' (variables split over N devices; "
    "JAX), 'tpu' or 'tpu:NAME' (TensorFlow)"
)


@dataclasses.dataclass(frozen=True)
class Spec:
    """A parsed spec.

    Attributes:
        kind: `"off"`, `"data"`, `"model"`, `"fsdp"` or `"tpu"`.
        mesh: `(batch, model)` of `"model"`, `(devices,)` of `"fsdp"`, else None.
        name: The address of a TPU, or None.
    """

    kind: str
    mesh: tuple | None = None
    name: str | None = None

    def __str__(self):
        sizes = "x".join(map(str, self.mesh)) if self.mesh else self.name
        return f"{self.kind}:{sizes}" if sizes else self.kind


def parse(text=None):
    """The `Spec` of a text; None is what `$KERAS_VIT_DISTRIBUTE` says, or off.

    Raises:
        ValueError: if it is not one of the grammar.
    """
    source = "spec"
    if text is None:
        source, text = VARIABLE, os.environ.get(VARIABLE) or "off"
    if text in ("off", "data", "tpu"):
        return Spec(text)
    match = re.fullmatch(r"(model):([1-9]\d*)x([1-9]\d*)|(fsdp):([1-9]\d*)|(tpu):(.+)", str(text))
    if match is None:
        raise ValueError(f"The distribution must be {GRAMMAR}. Received: {source}={text!r}")
    if match[1]:
        return Spec("model", (int(match[2]), int(match[3])))
    if match[4]:
        return Spec("fsdp", (int(match[5]),))
    return Spec("tpu", name=match[7])
