"""Named constructors joined with weights: what the file says, and what the caller may choose."""

import dataclasses
import pathlib
import warnings

from keras_vit.applications.class_names import imagenet_names
from keras_vit.layers import initial_values
from keras_vit.models.build import build_model
from keras_vit.models.preprocessing import Preprocessing
from keras_vit.models.resnet_stem import patch_stride
from keras_vit.weights import catalogue, checkpoint, download, files, keras_files, loading

CONSTANTS = ("activation", "layer_norm_epsilon", "interpolation")
# What a file decides about a Vision Transformer, whatever the constructor's defaults are.
DECIDED = (
    "origin",
    *CONSTANTS,
    "class_token",
    "class_token_position",
    "num_registers",
    "norm_after_pool",
    "layer_scale",
    "qk_norm",
)


def build_with_weights(constructor, spec, chosen, weights, input_tensor=None, name=None):
    """The model of a named constructor, with weights.

    Args:
        constructor: Name of the constructor, such as `"ViT_B16"`.
        spec: The spec that the constructor's arguments and defaults describe.
        chosen: `{field: value}` of the arguments that the caller gave and a file may contradict:
            `classes`, `pooling`, `representation_size`, `position_embedding`, `image_size`,
            `channels`. Those left open are absent.
        weights: A name of the catalogue, a path, or `hf://organisation/repository`.
        input_tensor: A Keras tensor to build on, or None.
        name: Name of the model.

    Returns:
        The model. What had to be changed to fit is said in one warning.

    Raises:
        ValueError: if there are no such weights, or they are not this constructor's.
    """
    path, entry = find_file(constructor, weights)
    with files.open_checkpoint(path) as file:
        found = _read(file, spec, entry)
        spec, head = settle(spec, chosen, found, entry, constructor)
        with initial_values.skipped():
            model = build_model(spec, input_tensor=input_tensor, name=name)
        report = loading.load_checkpoint(model, found, path, head=head)
    _announce(constructor, report, found, spec)
    return model


def find_file(constructor, weights):
    """`(path, catalogue entry or None)` of what `weights` names, fetched if need be."""
    text = str(weights)
    # A folder may well be called "imagenet"; `pathlib.Path("imagenet")` means it.
    is_published = isinstance(weights, str) and catalogue.entry_of(constructor, text) is not None
    if not is_published and pathlib.Path(text).exists():
        return pathlib.Path(text), None
    if text.startswith("hf://"):
        return download.fetch(text), None
    if isinstance(weights, pathlib.PurePath) or "/" in text or "." in text:
        raise ValueError(
            f"There is no file or folder at the path in `weights`. Received: weights={text!r}"
        )
    entry = catalogue.find(constructor, text)
    return download.fetch(entry), entry


def settle(spec, chosen, found, entry, constructor):
    """The spec to build and whether the head is `"strict"` or `"reset"`.

    A file decides what its keys tell. The caller decides the resolution, the number of classes and
    what is returned; another number of classes than the file's means a fresh head, without a hidden
    layer unless one was asked for (arXiv 2010.11929, section 3.2).
    """
    facts, changes, head = found.facts, {}, "strict"
    _check_sizes(facts, spec, constructor)
    if spec.include_top:
        head, top = _top(spec, chosen, facts)
        changes.update(top)
    keeps_head = spec.include_top and head == "strict"
    if spec.family == "vit":
        if facts.get("origin") is not None:
            changes.update(dict.fromkeys(CONSTANTS))  # None is what the file's origin has
        changes.update({key: facts[key] for key in DECIDED if facts.get(key) is not None})
        changes.update(_positions(spec, chosen, facts))
        changes.update(_pooling(spec, chosen, found, keeps_head))
        if changes.get("layer_scale") is True:
            changes["layer_scale"] = 1.0  # where it started is gone; the file has where it is
    changes["channels"] = chosen.get("channels") or facts["channels"]
    changes["image_size"] = chosen.get("image_size") or _image_size(spec, found, entry)
    changes.update(_descriptions(facts, keeps_head, changes["channels"]))
    return dataclasses.replace(spec, **changes), head


def _read(file, spec, entry):
    """The checkpoint; Keras's `.weights.h5` is read by the spec of the arguments."""
    if file.kind in keras_files.KINDS:
        return keras_files.read(file.path, file.kind, spec)
    found = loading.read_checkpoint(file, spec)
    if found.position_grid is None and entry is not None and checkpoint.POSITIONS in found.weights:
        found = found.with_grid(dataclasses.replace(spec, image_size=entry.resolution).grid)
    if entry is not None and entry.label_set == "imagenet":
        found = dataclasses.replace(found, facts={**found.facts, "class_names": imagenet_names()})
    if entry is not None:  # as the catalogue's accuracies were measured
        facts = {**found.facts, "preprocessing": entry.preprocessing}
        found = dataclasses.replace(found, facts=facts)
    return found


def _check_sizes(facts, spec, constructor):
    names = ("patch_size", "num_layers", "num_heads", "hidden_dim", "mlp_dim", "resnet")
    if spec.family == "bit":
        names = ("num_layers", "width")
    if facts.get("family", "vit") != spec.family:
        raise ValueError(
            f"The weights for '{constructor}' must be of its family, {spec.family!r}. "
            f"Received: a file of the family {facts.get('family', 'vit')!r}"
        )
    wrong = [
        f"{name}={facts[name]!r} ({constructor} has {getattr(spec, name)!r})"
        for name in names
        if name in facts and facts[name] != getattr(spec, name)
    ]
    if wrong:
        raise ValueError(
            f"The weights for '{constructor}' must have its sizes. Received: a file with "
            f"{', '.join(wrong)}. `keras_vit.VisionTransformer` builds any size, and "
            "`keras_vit.load_weights` loads into it."
        )


def _positions(spec, chosen, facts):
    kind = facts.get("position_embedding", spec.position_embedding)
    _check_choice(chosen, "position_embedding", kind)
    injection = facts.get("position_injection", spec.position_injection)
    return {"position_embedding": kind, "position_injection": injection}


def _pooling(spec, chosen, found, keeps_head):
    """Pooling by the caller, by the file, or none without a top."""
    facts, wanted = found.facts, chosen.get("pooling")
    if wanted is None:
        return {"pooling": facts.get("pooling", spec.pooling) if spec.include_top else None}
    has_its_weights = {
        "map": facts.get("pooling") == "map",
        "token": facts["class_token"],
    }
    # A classifier that is kept was trained to read the file's pooling.
    is_of_file = keeps_head and found.pooling_is_told
    if is_of_file or not has_its_weights.get(wanted, True):
        _check_choice(chosen, "pooling", facts.get("pooling"))
    return {"pooling": wanted}


def _top(spec, chosen, facts):
    """(`"strict"` or `"reset"`, the fields of the top)."""
    classes = chosen.get("classes")
    if facts.get("classes") is None or classes not in (None, facts["classes"]):
        return "reset", {"classes": classes or 1000, "class_names": None}
    hidden = facts.get("representation_size")
    _check_choice(chosen, "representation_size", hidden)
    return "strict", {"classes": facts["classes"], "representation_size": hidden}


def _check_choice(chosen, name, found):
    if chosen.get(name) is not None and chosen[name] != found:
        raise ValueError(
            f"`{name}` contradicts the weights. Received: {name}={chosen[name]!r}, but the file "
            f"has {name}={found!r}. Leave it out, or build fresh with `weights=None`."
        )


def _image_size(spec, found, entry):
    """The resolution of the weights, else the constructor's default."""
    if entry is not None:
        return entry.resolution
    if found.facts.get("image_size") is not None:
        return found.facts["image_size"]
    if found.position_grid is None or spec.family == "bit":
        return spec.image_size
    sides = zip(found.position_grid, patch_stride(spec.patch_size, spec.resnet), strict=True)
    return tuple(patches * pixels for patches, pixels in sides)


def _descriptions(facts, keeps_head, channels):
    """Facts that travel with the weights: of the pixels, and of the classes where they are kept."""
    preprocessing = facts.get("preprocessing") or Preprocessing()
    known = {"preprocessing": loading.preprocessing_of(preprocessing, channels)}
    if keeps_head and facts.get("class_names") is not None:
        known["class_names"] = facts["class_names"]
    return known


def _announce(constructor, report, found, spec):
    """One warning that says what was not taken as it is in the file."""
    said = [str(weight) for weight in report.adapted]
    if report.fresh:
        said.append(
            f"the head is fresh ({spec.classes} classes; the file has "
            f"{found.facts.get('classes') or 'none'}): fine-tune it"
        )
    if report.zero_head:
        said.append("the head of the file is all zeros: fine-tune before classifying")
    if said:
        warnings.warn(f"{constructor}: {'; '.join(said)}", stacklevel=5)
