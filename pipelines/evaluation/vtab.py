"""VTAB-1k: 19 tasks, 1,000 training images each (arXiv 1910.04867).

Training is on the first 800 images of the task's training part and the first 200 of its validation
part, as one set; the score is the top-1 accuracy on the whole test part. The score of a model is
the mean over the tasks.
"""

import dataclasses
import os
import pathlib
import re
from collections.abc import Callable

import numpy as np

from pipelines import files
from pipelines._tensorflow import tf
from pipelines.runs.data import RunData
from pipelines.runs.train import train
from pipelines.sources.stream import RecordStream

TRAIN, VALIDATION = 800, 200
GROUPS = ("natural", "specialized", "structured")

# Table 9 of arXiv 2010.11929, per cent, in the order of TASKS.
PUBLISHED = {
    "ViT-H/14 (JFT)": (95.3, 85.5, 75.2, 99.7, 97.2, 65.0, 88.9, 83.3, 96.7, 91.4, 76.6)
    + (91.7, 63.8, 53.1, 79.4, 63.3, 84.5, 33.2, 51.2),
    "ViT-L/16 (JFT)": (95.4, 81.9, 74.3, 99.7, 96.7, 63.5, 87.4, 83.6, 96.5, 89.7, 77.1)
    + (86.4, 63.1, 49.7, 74.5, 60.5, 82.2, 36.2, 51.1),
    "ViT-L/16 (ImageNet-21k)": (90.8, 84.1, 74.1, 99.3, 92.7, 61.0, 80.9, 82.5, 95.6, 85.2, 75.3)
    + (70.3, 56.1, 41.9, 74.7, 64.9, 79.9, 30.5, 41.7),
}


@dataclasses.dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: As in the paper's table.
        group: `"natural"`, `"specialized"` or `"structured"`.
        dataset: Name in TFDS.
        splits: Split expressions to train, validate and test.
        label: Name of the feature with the class, or a function of a TFDS example to the class, a
            scalar int64.
        classes: Integer where `label` is a function, else None: that of the feature.
        scale: Integer that pixels are multiplied by.
    """

    name: str
    group: str
    dataset: str
    splits: tuple
    label: str | Callable = "label"
    classes: int | None = None
    scale: int = 1


def _bin(value, borders):
    """The number of the bin that a scalar lies in; `borders` are the inner ones."""
    return tf.reduce_sum(tf.cast(value >= tf.constant(borders, "float32"), "int64"))


def _clevr_distance(example):
    return _bin(tf.reduce_min(example["objects"]["pixel_coords"][:, 2]), (8.0, 8.5, 9.0, 9.5, 10.0))


def _kitti_distance(example):
    objects = example["objects"]
    vehicles = tf.boolean_mask(objects["location"][:, 2], objects["type"] < 3)
    nearest = tf.reduce_min(tf.concat([vehicles, [1000.0]], axis=0))
    # No vehicle is the last of four classes.
    return tf.where(nearest > 999.0, tf.constant(3, "int64"), _bin(nearest, (8.0, 20.0)))


_TENTH = ("train[:90%]", "train[90%:]", "test")
_OFFICIAL = ("train", "validation", "test")
_SIXTY = ("train[:60%]", "train[60%:80%]", "train[80%:]")
_SPRITES = ("train[:80%]", "train[80%:90%]", "train[90%:]")
_NORB = ("train", "test[:50%]", "test[50%:]")
_CLEVR = ("train[:90%]", "train[90%:]", "validation")  # the test part has no labels

TASKS = (
    Task("Caltech101", "natural", "caltech101:3.*.*", _TENTH),
    Task("CIFAR-100", "natural", "cifar100:3.*.*", _TENTH),
    Task("DTD", "natural", "dtd:3.*.*", _OFFICIAL),
    Task("Flowers102", "natural", "oxford_flowers102:2.*.*", _OFFICIAL),
    Task("Pets", "natural", "oxford_iiit_pet", ("train[:80%]", "train[80%:]", "test")),
    Task("Sun397", "natural", "sun397/tfds:4.*.*", _OFFICIAL),
    Task("SVHN", "natural", "svhn_cropped:3.*.*", _TENTH),
    Task("Camelyon", "specialized", "patch_camelyon:2.*.*", _OFFICIAL),
    Task("EuroSAT", "specialized", "eurosat/rgb:2.*.*", _SIXTY),
    Task("Resisc45", "specialized", "resisc45:3.*.*", _SIXTY),
    Task(
        "Retinopathy",
        "specialized",
        "diabetic_retinopathy_detection/btgraham-300:3.*.*",
        _OFFICIAL,
    ),
    Task(
        "Clevr-Count",
        "structured",
        "clevr:3.*.*",
        _CLEVR,
        lambda example: tf.cast(tf.shape(example["objects"]["size"])[0], "int64") - 3,
        8,
    ),
    Task("Clevr-Dist", "structured", "clevr:3.*.*", _CLEVR, _clevr_distance, 6),
    Task("DMLab", "structured", "dmlab:2.0.1", _OFFICIAL),
    Task(
        "dSpr-Loc",
        "structured",
        "dsprites:2.*.*",
        _SPRITES,
        lambda example: example["label_x_position"] // 2,  # 32 places in 16 groups
        16,
        255,
    ),
    Task(
        "dSpr-Ori",
        "structured",
        "dsprites:2.*.*",
        _SPRITES,
        # 40 orientations in 16 groups of equal width
        lambda example: example["label_orientation"] * 16 // 40,
        16,
        255,
    ),
    Task("KITTI-Dist", "structured", "kitti:3.1.0", _OFFICIAL, _kitti_distance, 4),
    Task("sNORB-Azim", "structured", "smallnorb:2.*.*", _NORB, "label_azimuth"),
    Task("sNORB-Elev", "structured", "smallnorb:2.*.*", _NORB, "label_elevation"),
)


def vtab(recipe, out, tasks=TASKS, data_dir=None, verbose=2):
    """Fine-tunes and tests on every task whose data are on disk.

    Args:
        recipe: The `Recipe` for all tasks, `finetune_vtab`.
        out: Folder; each task has its own in it. What is complete is not run again.
        tasks: `Task`s.
        data_dir: Folder of TFDS; None is its own.
        verbose: As of `fit`.

    Returns:
        `{task name: accuracy}`; None for a task whose data are not there.
    """
    scores = {}
    for task in tasks:
        data = open_task(task, recipe, data_dir)
        folder = pathlib.Path(out) / task.name
        if data is None:
            scores[task.name] = None
            continue
        facts = train(
            recipe, folder, data=data, name=task.name, resume=folder.exists(), verbose=verbose
        )
        scores[task.name] = facts["history"][-1]["val_accuracy"]
    return scores


def open_task(task, recipe, data_dir=None):
    """The `RunData` of a task, or None where its data are not on disk."""
    if not files.exists(_folder(task, data_dir)):
        return None
    builder = _datasets().builder(task.dataset, data_dir=data_dir)
    if not tf.io.gfile.exists(str(builder.data_path)):
        return None
    examples = [(task.splits[0], TRAIN), (task.splits[1], VALIDATION)]
    learned = _stream(task, builder, examples).in_memory()
    tested = _stream(task, builder, [(task.splits[2], None)])
    return RunData(learned, tested, recipe)


def _folder(task, data_dir=None):
    """Where TFDS keeps all versions of a task's data.

    Looked at first, since TFDS imports the code of all its data sets to find one.
    """
    usual = os.path.join(os.path.expanduser("~"), "tensorflow_datasets")
    folder = data_dir or os.environ.get("TFDS_DATA_DIR", usual)
    return files.join(folder, re.split("[/:]", task.dataset)[0])


def _datasets():
    try:
        import importlib_resources  # noqa: F401 - TFDS 4.9.10 imports it and does not require it
        import tensorflow_datasets
    except ModuleNotFoundError as error:
        raise ImportError(
            f"VTAB needs {error.name}. "
            'Install it with: pip install "keras3-vit[tf]" importlib_resources'
        ) from error
    return tensorflow_datasets


def _stream(task, builder, parts):
    """A `RecordStream` of the first images of some splits, one after the other."""
    counts = []
    for split, most in parts:
        whole = builder.info.splits[split].num_examples
        counts.append(whole if most is None else min(whole, most))
    names = _class_names(task, builder)

    def pick(example):
        image = tf.cast(example["image"], "uint8") * task.scale
        label = example[task.label] if isinstance(task.label, str) else task.label(example)
        return tf.io.encode_png(image), tf.cast(label, "int64")

    def records():
        streams = [
            builder.as_dataset(split=split, shuffle_files=False).take(count).map(pick)
            for (split, _), count in zip(parts, counts, strict=True)
        ]
        stream = streams[0]
        for more in streams[1:]:
            stream = stream.concatenate(more)
        return stream

    return RecordStream(
        name=f"{task.name} ({' + '.join(split for split, _ in parts)})",
        class_names=names,
        count=sum(counts),
        size=sum(counts) * 100_000,
        records=records,
    )


def _class_names(task, builder):
    if task.classes is not None:
        return tuple(map(str, range(task.classes)))
    return tuple(builder.info.features[task.label].names)


def table(scores, tasks=TASKS):
    """Scores beside the published ones, in per cent, with the means of groups and of all."""
    names = [task.name for task in tasks]
    columns = {"ours": [scores.get(name) for name in names]}
    places = [[task.name for task in TASKS].index(name) for name in names]
    for model, values in PUBLISHED.items():
        columns[model] = [values[place] / 100 for place in places]
    width = max(map(len, columns)) + 2
    lines = [" " * 14 + "".join(f"{name:>{width}}" for name in columns)]
    for k, name in enumerate(names):
        lines.append(f"{name:<14}" + "".join(_cell(v[k], width) for v in columns.values()))
    for group in (*GROUPS, "mean"):
        chosen = [k for k, task in enumerate(tasks) if group in (task.group, "mean")]
        means = [_mean([values[k] for k in chosen]) for values in columns.values()]
        lines.append(f"{group:<14}" + "".join(_cell(value, width) for value in means))
    return "\n".join(lines)


def how_to_get(scores, tasks=TASKS):
    """Lines that say how to get the data that were missing."""
    missing = [task for task in tasks if scores.get(task.name) is None]
    return "\n".join(
        f'{task.name} is not on disk: python -c "import tensorflow_datasets as tfds; '
        f"tfds.builder('{task.dataset}').download_and_prepare()\""
        for task in missing
    )


def _mean(values):
    # Of all tasks or of none: a mean over some cannot be compared.
    return None if not values or None in values else float(np.mean(values))


def _cell(value, width):
    return f"{'-' if value is None else f'{100 * value:.1f}':>{width}}"
