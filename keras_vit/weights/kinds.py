"""Which kind of file a checkpoint is, told by its content, and what a file is that is none."""

import pathlib

from keras_vit.weights import npz

ZIP, HDF5 = b"PK\x03\x04", b"\x89HDF\r\n\x1a\n"
EMPTY_ZIP = b"PK\x05\x06"

HOW_TO_CONVERT = (
    "Convert it where you trust it and have PyTorch: "
    "`safetensors.torch.save_file(torch.load(path, weights_only=True), 'model.safetensors')`, "
    "with the state dict of the model alone"
)


def recognised(path: pathlib.Path) -> str:
    """The kind of a file: `"npz"`, `"safetensors"`, `"weights.h5"` or `"keras"`.

    Raises:
        ValueError: if it is none of these, with what it is.
    """
    with open(path, "rb") as file:
        start = file.read(512)
    if start.startswith((ZIP, EMPTY_ZIP)):
        return _recognised_zip(path)
    if start.startswith(HDF5):
        return "weights.h5"
    if start[8:9] == b"{":  # of the JSON after the length
        return "safetensors"
    raise ValueError(
        f"A checkpoint must be an .npz, .safetensors, .weights.h5 or .keras file. "
        f"Received: path='{path}', which {_described(start)}"
    )


def _described(start):
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not start:
        return "is empty."
    if text.startswith((b"<!doctype html", b"<html", b"<head")):
        return (
            "is an HTML page: the address it came from shows a page about the file, or an error, "
            "instead of the file. Fetch it from its download address."
        )
    if text.startswith(b"<?xml") or text.startswith(b"<error"):
        return "is an XML message, probably a server's error. Check the address it came from."
    if text.startswith(b"version https://git-lfs"):
        return "is a Git LFS pointer: the file itself was not fetched. Run `git lfs pull`."
    if start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return f"is a pickle, as PyTorch writes it. {HOW_TO_CONVERT}."
    if start.startswith(b"\x1f\x8b"):
        return "is compressed with gzip. Unpack it first."
    return f"is none of them: it begins with {start[:16]!r}."


def _recognised_zip(path):
    with npz.open_zip(path) as archive:
        names = archive.namelist()
    if "model.weights.h5" in names and "config.json" in names:
        return "keras"
    if any(name.endswith("data.pkl") for name in names):
        raise ValueError(
            "A checkpoint must not be a pickle, since reading one runs code of whoever made it. "
            f"Received: path='{path}', a file that PyTorch wrote. {HOW_TO_CONVERT}."
        )
    if names and all(name.endswith(".npy") for name in names):
        return "npz"
    raise ValueError(
        "A checkpoint that is a zip archive must be an .npz or .keras file. "
        f"Received: path='{path}', an archive of {sorted(names)[:5]}"
    )
