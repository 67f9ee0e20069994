"""IDX files, in which MNIST and its successors are published."""

import gzip
import math
import os

import numpy as np

from pipelines._tensorflow import tf

_GZIP = b"\x1f\x8b"
_UINT8 = b"\x00\x00\x08"  # two zeros and the code of the type; the number of axes follows


def read_idx(path):
    """The array of an IDX file of bytes, which may be compressed by gzip.

    The format is four bytes (0, 0, the type, the number of axes), the sides as big-endian uint32,
    and the values, last axis first (yann.lecun.com/exdb/mnist).

    Args:
        path: The file.

    Returns:
        uint8 array.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not an IDX file of bytes, or not whole.
    """
    path = os.fspath(path)
    if not tf.io.gfile.exists(path):
        raise FileNotFoundError(f"There is no file {path}")
    with tf.io.gfile.GFile(path, "rb") as file:
        content = file.read()
    if content.startswith(_GZIP):
        content = _decompressed(content, path)
    if len(content) < 4 or not content.startswith(_UINT8):
        raise ValueError(
            "An IDX file of bytes begins with 0, 0, 8 and the number of its axes. "
            f"Received: {path}, which begins with {list(content[:4])}"
        )
    axes = content[3]
    header = 4 + 4 * axes
    if len(content) < header:
        raise ValueError(f"{path} ends within its header of {header} bytes; fetch it anew.")
    shape = tuple(map(int, np.frombuffer(content, ">u4", axes, 4)))
    if len(content) - header != math.prod(shape):
        raise ValueError(
            f"{path} should hold {math.prod(shape)} bytes, for the shape {shape}. "
            f"Received: {len(content) - header} bytes; fetch it anew."
        )
    return np.frombuffer(content, "uint8", offset=header).reshape(shape)


def _decompressed(content, path):
    try:
        return gzip.decompress(content)
    except (EOFError, gzip.BadGzipFile, gzip.zlib.error) as error:
        raise ValueError(f"{path} is not a whole gzip file ({error}); fetch it anew.") from error
