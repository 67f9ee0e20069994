"""How fast images are decoded, cropped, flipped and batched, beside other ways to do it.

    python benchmarks/pipeline.py --out benchmarks/results

JPEGs of 500 x 375 pixels and of 12 megapixels are made from the photographs of the examples, in a
folder for each class. Each contender has a process of its own, and they take turns. torchvision is
measured where it is installed; `--torchvision-python` names an interpreter that has it.

    python benchmarks/pipeline.py --memory --out benchmarks/results

tells instead how much memory our training data hold after each of several epochs.
"""

import argparse
import os
import pathlib
import sys
import tempfile
import time

import measure
import pipeline_memory

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

IMAGE_SIZE, WARM_UP = (224, 224), 3
OURS = "keras_vit"
BARE = "decode_and_crop alone"
# Width, height, how many files, images of a batch, and batches of a turn.
SIZES = {"500x375": (500, 375, 512, 64, 20), "12 megapixels": (4032, 3024, 24, 16, 4)}
FOLLOWED = 2048  # files of the first size whose memory is followed: far more decoded than encoded


# --- The images ---------------------------------------------------------------------------------


def make_images(folder, width, height, count):
    """Writes JPEGs `class/number.jpg`: parts of the photographs, mirrored on where they end."""
    import numpy as np
    from PIL import Image

    photos = sorted((ROOT / "examples/photos").glob("*.[pj][np]g"))
    rng = np.random.default_rng(0)
    for number in range(count):
        photo = photos[number % len(photos)]
        pixels = np.asarray(Image.open(photo).convert("RGB"))
        pixels = np.concatenate([pixels, pixels[:, ::-1]], 1)
        pixels = np.concatenate([pixels, pixels[::-1]], 0)
        pixels = np.roll(pixels, rng.integers(0, pixels.shape[:2]), (0, 1))
        repeats = [
            -(-side // own) for side, own in zip((height, width), pixels.shape, strict=False)
        ]
        pixels = np.tile(pixels, (*repeats, 1))[:height, :width]
        path = pathlib.Path(folder, photo.stem, f"{number}.jpg")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path, quality=92)


# --- The contenders -----------------------------------------------------------------------------
# Functions of the folder to a function that begins an endless iterator of numbers of images.


def keras_vit_load(folder, batch_size):
    """`pipelines.load` of the folder, to uint8 batches."""
    import keras_vit
    import pipelines

    model = keras_vit.VisionTransformer(
        IMAGE_SIZE, 32, 1, 1, 8, 8, classes=4, include_preprocessing=True
    )
    data, _ = pipelines.load(
        folder, model=model, batch_size=batch_size, augment="none", validation=False, repeat=True
    )
    return lambda: (int(images.shape[0]) for images, _ in data)


def decode_and_crop_alone(folder, batch_size):
    """TensorFlow's fused op with an Inception crop, and nothing else: no resize, no batch."""
    from pipelines._tensorflow import tf
    from pipelines.augment import InceptionCrop

    def rows(path, number):
        data = tf.io.read_file(path)
        height, width, _ = tf.unstack(tf.image.extract_jpeg_shape(data))
        seed = tf.stack([tf.constant(0, "int64"), number])
        box = InceptionCrop().box(height, width, seed, IMAGE_SIZE)
        return tf.shape(tf.io.decode_and_crop_jpeg(data, box, channels=3))[0]

    return _counted(folder, batch_size, rows)


def decode_alone(folder, batch_size):
    """TensorFlow's decode_jpeg of the whole image, which is libjpeg-turbo, and nothing else."""
    from pipelines._tensorflow import tf

    def rows(path, number):
        return tf.shape(tf.io.decode_jpeg(tf.io.read_file(path), channels=3))[0]

    return _counted(folder, batch_size, rows)


def _counted(folder, batch_size, rows):
    from pipelines._tensorflow import tf

    paths = tf.data.Dataset.from_tensor_slices([str(path) for path in _files(folder)])
    numbers = tf.data.Dataset.range(2**40)
    data = tf.data.Dataset.zip(paths.repeat(), numbers)
    data = data.map(rows, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size)
    data = data.prefetch(tf.data.AUTOTUNE)
    return lambda: (len(batch) for batch in data)


def keras_directory(folder, batch_size):
    """Keras's image_dataset_from_directory: decodes and resizes whole images, without a crop."""
    import keras

    data = keras.utils.image_dataset_from_directory(
        folder, image_size=IMAGE_SIZE, batch_size=batch_size, verbose=False
    )
    data = data.repeat()
    return lambda: (int(images.shape[0]) for images, _ in data)


def torchvision_folder(folder, batch_size):
    """torchvision's ImageFolder and DataLoader with two workers, to uint8 batches."""
    import torch
    from peers import torchvision_alone

    torchvision_alone.declare_operators()
    from torchvision import transforms
    from torchvision.datasets import ImageFolder

    chain = transforms.Compose(
        [
            transforms.RandomResizedCrop(IMAGE_SIZE, scale=(0.05, 1.0)),
            transforms.RandomHorizontalFlip(),
            transforms.PILToTensor(),
        ]
    )
    images = torch.utils.data.ConcatDataset([ImageFolder(folder, chain)] * 1000)  # no end in sight
    loader = torch.utils.data.DataLoader(images, batch_size, shuffle=True, num_workers=2)
    return lambda: (len(batch) for batch, _ in loader)


def pillow_decode(folder, batch_size):
    """Pillow's decoding of the whole image in two threads, and nothing else."""
    from concurrent.futures import ThreadPoolExecutor

    from PIL import Image

    def rows(path):
        return Image.open(path).convert("RGB").height

    files = (_files(folder) * batch_size)[:batch_size]

    def batches():
        with ThreadPoolExecutor(2) as threads:
            while True:
                yield len(list(threads.map(rows, files)))

    return batches


CONTENDERS = {
    OURS: keras_vit_load,
    BARE: decode_and_crop_alone,
    "decode_jpeg alone": decode_alone,
    "Pillow's decoding alone": pillow_decode,
    "Keras image_dataset_from_directory": keras_directory,
    "torchvision ImageFolder": torchvision_folder,
}


def _files(folder):
    return sorted(pathlib.Path(folder).glob("*/*.jpg"))


# --- One worker, and all of them ----------------------------------------------------------------


def serve(name, folder, batch_size):
    """The process of one contender: counts batches until there are enough images.

    Every turn begins a new iterator: one that waits while others have their turn would have its
    buffers full. The first batches, which are slower, do not count.
    """
    begin = None

    def work(images):
        nonlocal begin
        begin = begin or CONTENDERS[name](folder, batch_size)
        batches, done = begin(), 0
        for _ in range(WARM_UP):
            next(batches)
        start, cpu = time.perf_counter(), measure.cpu_seconds(os.getpid())
        while done < images:
            done += next(batches)
        seconds, cpu = time.perf_counter() - start, measure.cpu_seconds(os.getpid()) - cpu
        resident, peak = measure.memory(os.getpid())
        batches.close()
        found = {"images": done, "seconds": seconds, "cpu": cpu}
        return {**found, "resident": resident, "peak": peak}

    measure.serve(work)


def compare(folder, batch_size, images, rounds, names, torchvision_python):
    """Dictionary of contender to its medians, or to why it failed."""
    here = str(pathlib.Path(__file__).resolve())
    workers = {}
    for name in names:
        python = torchvision_python if name.startswith("torchvision") else sys.executable
        environment = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [python, here, "--worker", name, "--folder", str(folder)]
        command += ["--batch-size", str(batch_size)]
        workers[name] = measure.Worker(command, environment)
    try:
        answers = measure.interleaved(workers, rounds, {name: {"images": images} for name in names})
    finally:
        for worker in workers.values():
            worker.close()
    cores = measure.machine()["cores"]
    results = {name: summary(answers[name], cores) for name in answers}
    results |= {name: {"failure": workers[name].failure} for name in names if name not in answers}
    return results


def summary(answers, cores):
    rates = [answer["images"] / answer["seconds"] / cores for answer in answers]
    return {
        "images_per_second_and_core": measure.median(rates),
        "spread": measure.spread(rates),
        "cpu_ms_per_image": measure.median([1e3 * a["cpu"] / a["images"] for a in answers]),
        "peak_mib": max(answer["peak"] for answer in answers),
        "resident_mib": [round(answer["resident"]) for answer in answers],
    }


def report(results):
    """The results in Markdown."""
    lines = ["# Input pipeline", ""]
    lines += [
        "Images per second and core: decoded, Inception crop (area 5 to 100 %), flipped, resized "
        f"to {IMAGE_SIZE[0]} x {IMAGE_SIZE[1]}, in batches. What is *alone* only "
        "decodes; Keras's directory reader does not crop. Medians of rounds in which all took "
        "turns. Memory is of the process and its children, at its most, and after the first and "
        "the last round.",
        "",
        ", ".join(f"{key}: {value}" for key, value in results["machine"].items()) + ".",
    ]
    header = ["", "images/s/core", "±", "CPU ms/image", "peak MiB", "first to last", f"{OURS} is"]
    for size, found in results["sizes"].items():
        rows = [_row(name, row, found.get(OURS, {})) for name, row in found.items()]
        lines += ["", f"## {size}", "", measure.table(header, rows)]
    return "\n".join(lines)


def _row(name, row, ours):
    if "failure" in row:
        return [name, f"left out: {row['failure']}", "", "", "", "", ""]
    key = "images_per_second_and_core"
    ratio = f"{ours[key] / row[key]:.2f} x" if key in ours else ""
    return [
        name,
        f"{row[key]:.0f}",
        f"{100 * row['spread']:.0f} %",
        f"{row['cpu_ms_per_image']:.2f}",
        f"{row['peak_mib']:.0f}",
        f"{row['resident_mib'][0]} to {row['resident_mib'][-1]}",
        ratio,
    ]


def parse(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", help="folder for pipeline.json and pipeline.md")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", action="store_true", help="memory over epochs, instead")
    parser.add_argument("--epochs", type=int, default=10, help="with --memory")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--share", type=float, default=1.0, help="of the images of a turn")
    parser.add_argument("--torchvision-python", default=sys.executable)
    parser.add_argument("--worker", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--batch-size", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def follow_memory(options):
    """What `--memory` does."""
    size = next(iter(SIZES))
    results = {"machine": measure.machine(), "size": size, "epochs": options.epochs}
    with tempfile.TemporaryDirectory() as root:
        folder = pathlib.Path(root, "images")
        count = max(int(FOLLOWED * options.share), pipeline_memory.BATCH_SIZE)
        make_images(folder, *SIZES[size][:2], count)
        results["collection"] = pipeline_memory.collection(folder)
        results["sources"] = pipeline_memory.follow(folder, IMAGE_SIZE, options.epochs)
    text = pipeline_memory.report(results)
    print(text)
    if options.out:
        measure.write(options.out, "pipeline_memory", results, text)


def main(argv=None):
    options = parse(argv)
    if options.worker:
        return serve(options.worker, options.folder, options.batch_size)
    if options.memory:
        return follow_memory(options)
    results = {"machine": measure.machine(), "rounds": options.rounds, "sizes": {}}
    for size in options.sizes:
        width, height, files, batch_size, batches = SIZES[size]
        with tempfile.TemporaryDirectory() as folder:
            make_images(folder, width, height, files)
            results["sizes"][size] = compare(
                folder,
                batch_size,
                batch_size * max(1, int(batches * options.share)),
                options.rounds,
                options.contenders,
                options.torchvision_python,
            )
    text = report(results)
    print(text)
    if options.out:
        measure.write(options.out, "pipeline", results, text)


if __name__ == "__main__":
    main()
