"""Whether the input pipeline holds more memory with every epoch, and how much: encoded, or decoded.

    python benchmarks/pipeline.py --memory --out benchmarks/results

One folder of JPEGs is read as files, as records that are held in memory, and as a stream of records
through a small buffer, each in a process of its own. After every epoch it tells what it holds:
resident memory, and the anonymous part of it, which is without the libraries' files.
"""

import os
import pathlib
import sys

import measure

MIB = 2**20
BUFFER = 32 * MIB  # of encoded records, in place of a stream's own, which is larger than the images
BATCH_SIZE = 64
FOLDER, HELD, STREAM = "folder", "records, held", "records, stream"
SOURCES = (FOLDER, HELD, STREAM)
HEADER = [
    "source", "may wait, encoded", "before", "1st epoch", "middle", "last", "held", "per epoch",
    "resident, most",
]  # fmt: skip


# --- The process of one source --------------------------------------------------------------------


def serve(source, folder, image_size):
    """Reads as many epochs as are asked for, as `fit` does, and tells of the memory after them."""
    train = None

    def work(epochs):
        nonlocal train
        if not epochs:
            _load_libraries()
        elif train is None:
            train = _load(source, folder, image_size)
        images = sum(int(images.shape[0]) for _ in range(epochs) for images, _ in train)
        return {"images": images, **_memory()}

    measure.serve(work)


def _load_libraries():
    """A few pixels through the pipeline, so that libraries do not count as what images take."""
    import numpy as np

    import pipelines

    images = np.zeros((2, 8, 8, 3), "uint8")
    data, _ = pipelines.load(
        (images, [0, 1]), model=_model((8, 8), 2), batch_size=1, augment="none", validation=False
    )
    list(data)


def _load(source, folder, image_size):
    import pipelines
    from pipelines.feed import in_sequence

    in_sequence.BUFFER_BYTES = BUFFER
    text = str(folder) if source == FOLDER else f"records:{records(folder)}"
    classes = len([path for path in pathlib.Path(folder).iterdir() if path.is_dir()])
    data, _ = pipelines.load(
        text,
        model=_model(image_size, classes),
        batch_size=BATCH_SIZE,
        augment="none",
        validation=False,
        cache=0 if source == STREAM else 2**40,
    )
    return data


def _model(image_size, classes):
    import keras_vit

    return keras_vit.VisionTransformer(
        image_size, image_size, 1, 1, 8, 8, classes=classes, include_preprocessing=True
    )


def _memory():
    resident, peak = measure.memory(os.getpid())
    return {"resident": resident, "peak": peak, "anonymous": measure.anonymous(os.getpid())}


# --- All of them ----------------------------------------------------------------------------------


def records(folder):
    """What the shards beside a folder's images are called."""
    return str(pathlib.Path(folder).with_name("records") / "train")


def follow(folder, image_size, epochs):
    """Dictionary of source to its readings, the first of them before the first epoch."""
    from pipelines.collections.prepare import prepare
    from pipelines.sources import open_source

    prepare(open_source(str(folder)), records(folder), 4, max_side=None, progress=False)
    found = {}
    for source in SOURCES:
        command = [sys.executable, str(pathlib.Path(__file__).resolve()), source, str(folder)]
        command += map(str, image_size)
        environment = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
        worker = measure.Worker(command, environment)
        try:
            answers = [worker.ask(epochs=0)] + [worker.ask(epochs=1) for _ in range(epochs)]
        finally:
            worker.close()
        found[source] = {"failure": worker.failure, "readings": [a for a in answers if a]}
    return found


def collection(folder):
    """How many images there are, and how many MiB encoded and decoded."""
    from PIL import Image

    files = sorted(pathlib.Path(folder).glob("*/*.jpg"))
    with Image.open(files[0]) as image:
        decoded = len(files) * image.width * image.height * 3
    encoded = sum(file.stat().st_size for file in files)
    return {"images": len(files), "encoded": encoded / MIB, "decoded": decoded / MIB}


def may_wait(source, encoded):
    """MiB of encoded images that a source may hold, by its buffers, of a collection of so many."""
    return {FOLDER: 0, HELD: encoded, STREAM: min(BUFFER / MIB, encoded)}[source]


def report(results):
    """The readings in Markdown."""
    images = results["collection"]
    lines = [
        "# Memory of the input pipeline",
        "",
        f"{images['images']:,} JPEGs of {results['size']} pixels: {images['encoded']:.0f} MiB "
        f"encoded, {images['decoded']:.0f} MiB decoded. MiB of anonymous memory before the images "
        f"are opened, and after the first, the middle and the last of {results['epochs']} epochs. "
        "What is *held* is the last less the first of these numbers: buffers, images that threads "
        "have at hand, batches ahead, and what the allocator keeps. *Per epoch* is growth since "
        "the first epoch.",
        "",
    ]
    rows = [_row(source, found, images) for source, found in results["sources"].items()]
    machine = ", ".join(f"{key}: {value}" for key, value in results["machine"].items())
    return "\n".join([*lines, measure.table(HEADER, rows), "", f"{machine}."])


def _row(source, found, images):
    readings = found["readings"]
    if found["failure"] or len(readings) < 2:
        return [source, f"failed: {found['failure']}", *[""] * (len(HEADER) - 2)]
    before, first, last = readings[0], readings[1], readings[-1]
    middle = readings[len(readings) // 2]
    epochs = max(len(readings) - 2, 1)
    return [
        source,
        f"{may_wait(source, images['encoded']):.0f}",
        *[f"{reading['anonymous']:.0f}" for reading in (before, first, middle, last)],
        f"{last['anonymous'] - before['anonymous']:.0f}",
        f"{(last['anonymous'] - first['anonymous']) / epochs:+.1f}",
        f"{max(reading['peak'] for reading in readings):.0f}",
    ]


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    source, folder, *size = sys.argv[1:]
    serve(source, folder, tuple(map(int, size)))
