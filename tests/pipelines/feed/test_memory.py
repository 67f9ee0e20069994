"""What waits is encoded: few images are decoded ahead of those that are asked for."""

import time

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from image_files import encoded, model_of, write
from tf_data import once

import pipelines
from pipelines.collections.prepare import prepare
from pipelines.images import decoding
from pipelines.sources import open_source

pytestmark = once

COUNT = 600


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The same images as a folder and as records. They are GIFs, which Pillow decodes."""
    root = tmp_path_factory.mktemp("memory")
    for number in range(COUNT):
        pixels = np.full((5, 7), number % 256, "uint8")
        write(root / "photos" / "ab"[number % 2] / f"{number}.gif", encoded(pixels, "GIF"))
    prepare(open_source(str(root / "photos")), root / "r", 2, progress=False)
    return {"folder": str(root / "photos"), "stream": f"records:{root}/r"}


@pytest.mark.parametrize("name", ["folder", "stream"])
@pytest.mark.parametrize("repeat", [False, True])
def test_few_images_are_decoded_before_they_are_asked_for(sources, name, repeat, monkeypatch):
    train, _ = pipelines.load(
        sources[name], model=model_of(2), batch_size=2, validation=False, cache=0, repeat=repeat
    )
    decoded = []
    decode = decoding.decode_with_pillow
    monkeypatch.setattr(
        decoding, "decode_with_pillow", lambda *given: decoded.append(1) or decode(*given)
    )
    batches = iter(train)
    next(batches)
    time.sleep(0.5)  # long enough to decode all of them
    # Those in parallel and a few batches, however many cores there are.
    assert 2 <= len(decoded) < COUNT // 3
