"""Training and validation data: which images, in which order, as what."""

import types

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from image_files import encoded, flat, model_of, place, values, write, write_folder
from tf_data import once

import pipelines
from keras_vit.models.preprocessing import Preprocessing
from pipelines._tensorflow import tf
from pipelines.augment import Augment
from pipelines.collections.prepare import prepare
from pipelines.feed.targets import Targets
from pipelines.loading import evaluation_data
from pipelines.sources import open_source
from pipelines.sources.arrays import arrays
from pipelines.sources.records import records
from pipelines.sources.tfds import tfds

pytestmark = once

CLASSES = {"a": range(10, 20), "b": range(30, 37), "c": range(50, 54)}  # 21 images
CLASS_NAMES = ("ant", "bee", "cow")
MODEL = model_of(3)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("photos"), CLASSES)


@pytest.fixture(scope="module")
def flats():
    """The same images in memory."""
    members = [value for values in CLASSES.values() for value in values]
    images = np.repeat(np.array(members, "uint8"), 5 * 7 * 3).reshape(-1, 5, 7, 3)
    return arrays(images, [label_of(value) for value in members], tuple(CLASSES))


@pytest.fixture(scope="module")
def textures():
    """A source of 12 images of noise, so that crops and flips show."""
    images = np.random.default_rng(0).integers(0, 256, (12, 10, 14, 3), "uint8")
    return arrays(images, np.arange(12) % 3, ("a", "b", "c"))


def load(source, batch_size=4, model=MODEL, **arguments):
    return pipelines.load(source, model=model, batch_size=batch_size, **arguments)


def read(dataset, batches=None):
    dataset = dataset if batches is None else dataset.take(batches)
    return list(dataset.as_numpy_iterator())


def assert_equal(first, second):
    assert len(first) == len(second)
    for batch, other in zip(first, second, strict=True):
        for array, expected in zip(batch, other, strict=True):
            np.testing.assert_array_equal(array, expected)


def label_of(value):
    return next(i for i, members in enumerate(CLASSES.values()) if value in members)


# --- What comes out -----------------------------------------------------------------------------


def test_images_and_labels_belong_together(photos):
    train, validation = load(photos)
    assert train.element_spec[0].shape == (4, 4, 6, 3) and len(train) == 4
    assert [spec.dtype.name for spec in train.element_spec] == ["uint8", "int32"]
    seen = []
    for images, labels in read(train):
        assert labels.tolist() == [label_of(value) for value in values(images)]
        seen += values(images)
    assert len(set(seen)) == len(seen) == 16
    ((images, labels, mask),) = read(validation)
    assert mask.dtype == "float32" and mask.tolist() == [1, 1, 1, 0]
    held = values(images)[:3]
    assert [label_of(value) for value in held] == labels[:3].tolist() == [0, 1, 2]
    others = [v for x, _ in read(load(photos, 1)[0]) for v in values(x)]
    assert sorted(others + held) == [v for members in CLASSES.values() for v in members]


def test_images_have_the_range_of_a_model_that_takes_floats(flats):
    facts = Preprocessing(mean=(0.5, 0.25, 0.0), std=(0.5, 0.25, 1.0))
    model = model_of(3, include_preprocessing=False, preprocessing=facts)
    train, validation = load(flats, model=model)
    for bytes_in, floats in zip(load(flats), (train, validation), strict=True):
        for batch, expected in zip(read(floats), read(bytes_in), strict=True):
            assert batch[0].dtype == "float32"
            scaled = (expected[0] / 255.0 - facts.mean) / facts.std
            np.testing.assert_allclose(batch[0], scaled, atol=1e-5)


def test_channels_are_the_models(photos, textures):
    grey = model_of(3, channels=1)
    assert load(photos, model=grey)[0].element_spec[0].shape == (4, 4, 6, 1)
    one = arrays(np.full((6, 3, 3, 1), 9, "uint8"), [0, 1, 2] * 2, ("a", "b", "c"))
    images, _ = read(load(one, 2, validation=False)[0])[0]
    assert images.shape == (2, 4, 6, 3) and (images == 9).all()
    assert load(textures, model=grey)[0].element_spec[0].shape == (4, 4, 6, 1)


def test_validation_is_never_augmented_and_the_same_every_time(textures):
    _, validation = load(textures, augment="strong2", validation=textures, batch_size=12)
    _, plain = load(textures, validation=textures, batch_size=12, one_hot=True)
    assert_equal(read(validation), read(plain))
    assert_equal(read(validation), read(validation))
    same_size = model_of(3, image_size=(10, 14))
    ((images, labels, _),) = read(
        load(textures, 12, same_size, augment="strong2", validation=textures)[1]
    )
    for i in range(12):
        np.testing.assert_array_equal(images[i], textures.read(i))
    assert labels.argmax(-1).tolist() == textures.labels.tolist()


@pytest.mark.parametrize("size", [1, 7, 8, 9, 16])
def test_evaluation_counts_every_image_once(size):
    source = arrays(
        np.repeat(np.arange(size, dtype="uint8"), 15).reshape(size, 3, 5), [1] * size, ("a", "b")
    )
    train = arrays(np.zeros((9, 3, 5), "uint8"), [0, 1, 1] * 3, ("a", "b"))
    for hosts in (1, 4):
        seen, lengths = [], set()
        for host in range(hosts):
            _, data = load(
                train, 8, model_of(2, channels=1), validation=source, distribute=place(host, hosts)
            )
            batches = read(data)
            lengths.add(len(batches))
            for images, labels, mask in batches:
                assert len(images) == len(labels) == len(mask) == 8 // hosts
                assert labels[mask > 0].tolist() == [1] * int(mask.sum())
                seen += np.array(values(images))[mask > 0].tolist()
        assert sorted(seen) == list(range(size))
        assert lengths == {-(-size // 8)}  # every host has equally many


# --- In which order -----------------------------------------------------------------------------


def test_the_same_run_twice_and_another_seed(textures):
    arguments = {"augment": "none", "validation": False}
    first, again, other = (read(load(textures, seed=seed, **arguments)[0]) for seed in (7, 7, 8))
    assert_equal(first, again)
    assert any((a[0] != b[0]).any() for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize(
    "augment, step",
    [
        ("medium2", 7),
        (Augment(cutmix=1.0, mix_each=True, erasing=0.5), 1),
        (Augment(mixup=1.0, crop="random"), 3),
    ],
)
def test_a_run_goes_on_at_any_step(textures, augment, step):
    arguments = {"augment": augment, "validation": False, "batch_size": 5}
    whole = read(load(textures, repeat=True, **arguments)[0], step + 4)
    rest = read(load(textures, repeat=True, start_step=step, **arguments)[0], 4)
    assert_equal(rest, whole[step:])
    passes = load(textures, start_step=step, **arguments)[0]
    assert_equal(read(passes) + read(passes), rest)


def test_passes_follow_each_other_and_a_look_is_none(textures):
    arguments = {"augment": "none", "validation": False}
    endless = read(load(textures, repeat=True, **arguments)[0], 9)
    train, _ = load(textures, **arguments)
    assert len(train) == 3
    for epoch in range(3):
        read(train, 1)  # does not count
        assert_equal(read(train), endless[3 * epoch : 3 * epoch + 3])
    images = [batch[0] for batch in endless]
    assert len({image.tobytes() for batch in images for image in batch}) == 36  # all cropped anew


def test_hosts_see_their_rows_of_what_one_host_sees(textures):
    arguments = {"augment": "none", "repeat": True, "validation": False, "start_step": 2}
    whole = read(load(textures, **arguments)[0], 4)
    parts = [
        read(load(textures, distribute=place(host, 2), **arguments)[0], 4) for host in range(2)
    ]
    together = [
        tuple(np.concatenate(arrays) for arrays in zip(*both, strict=True))
        for both in zip(*parts, strict=True)
    ]
    assert_equal(together, whole)


def test_labels_of_mixed_images_are_shares(textures):
    train, _ = load(textures, augment=Augment(mixup=0.8, flip=False, crop="squash"), batch_size=5)
    images, labels = read(train)[0]
    assert labels.dtype == "float32" and labels.shape == (5, 3)
    np.testing.assert_allclose(labels.sum(-1), 1, atol=1e-6)
    assert images.dtype == "uint8" and ((labels > 0.01) & (labels < 0.99)).any()


# --- From where ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def same_images(tmp_path_factory):
    """A folder with ten images as files, in a table, in arrays and in records; and the files."""
    root = tmp_path_factory.mktemp("same")
    pictures = np.random.default_rng(0).integers(0, 256, (10, 9, 13, 3), "uint8")
    labels = np.sort(np.arange(10) % 3)
    files = [(encoded(picture), label) for picture, label in zip(pictures, labels, strict=True)]
    names = [f"{CLASS_NAMES[label]}/{i}.png" for i, (_, label) in enumerate(files)]
    for name, (data, _) in zip(names, files, strict=True):
        write(root / "photos" / name, data)
    rows = [f"photos/{name},{name.split('/')[0]}" for name in names]
    (root / "labels.csv").write_text("\n".join(["path,label", *rows]))
    np.savez(root / "arrays.npz", images=pictures, labels=labels, class_names=CLASS_NAMES)
    write_records(root / "r-00000-of-00001.tfrecord", files)
    return root, files, batches_of(root / "photos")


def batches_of(source):
    train, evaluated = load(source, augment="none", repeat=True, validation=source)
    return read(train, 5) + read(evaluated)


@pytest.mark.parametrize("name", ["labels.csv", "arrays.npz", "records", "tfds"])
def test_sources_of_the_same_images_give_the_same_batches(same_images, name, monkeypatch):
    root, files, expected = same_images
    source = root / name
    if name == "records":
        source = records(root / "r", class_names=CLASS_NAMES)
    if name == "tfds":
        from tiny_tfds import TinyPictures

        monkeypatch.setattr(TinyPictures, "content", {"train": files})
        source = tfds("tiny_pictures", data_dir=str(root))
    assert_equal(batches_of(source), expected)


def write_records(path, files):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for data, label in files:
            feature = {
                "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[data])),
                "image/class/label": tf.train.Feature(
                    int64_list=tf.train.Int64List(value=[int(label)])
                ),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())


def test_validation_from_where_it_is_asked(flats, tmp_path):
    def counts(**arguments):
        train, validation = load(flats, 1, **arguments)
        held = None if validation is None else int(sum(mask.sum() for *_, mask in read(validation)))
        return len(train), held

    assert counts(validation=False) == (21, None)
    assert counts() == (18, 3)
    assert counts(validation=0.5) == (10, 11)  # 5 of 10, 4 of 7, 2 of 4
    other = write_folder(tmp_path / "other", {"b": [1, 2]})
    with pytest.raises(ValueError, match="only one class"):
        open_source(other)
    train, validation = load(flats, 1, validation=other)
    assert len(train) == 21 and [y.tolist() for _, y, _ in read(validation)] == [[1], [1]]
    write_folder(tmp_path / "parts" / "train", CLASSES)
    write_folder(tmp_path / "parts" / "val", {"c": [7]})
    train, validation = load(tmp_path / "parts", 1)
    assert len(train) == 21 and [y.tolist() for _, y, _ in read(validation)] == [[2]]
    write_folder(tmp_path / "parts" / "val", {"new": [7]})
    with pytest.raises(ValueError, match="'new'"):
        load(tmp_path / "parts", 1)


def test_neither_seed_nor_fraction_moves_the_validation_images(flats):
    def held(**arguments):
        return [values(images) for images, *_ in read(load(flats, 1, **arguments)[1])]

    assert held() == held(seed=9, fraction=0.2) != held(split_seed=1)


def test_fractions_are_nested(flats):
    def used(share):
        return {
            value
            for images, _ in read(load(flats, 1, fraction=share)[0])
            for value in values(images)
        }

    few, more = used(0.01), used(0.6)
    assert few < more and {label_of(value) for value in few} == {0, 1, 2}


def test_classes_are_those_that_the_model_names(flats):
    model = model_of(5, class_names=("z", "c", "b", "y", "a"))
    train, validation = load(flats, model=model)
    for images, labels in read(train):
        names = [model.spec.class_names[label] for label in labels]
        assert names == ["abc"[label_of(value)] for value in values(images)]
    ((_, labels, _),) = read(validation)
    assert labels[:3].tolist() == [4, 2, 1]
    with pytest.raises(ValueError, match="not among the 3 that the model names: 'c'"):
        load(flats, model=model_of(3, class_names=("a", "b", "x")))
    with pytest.raises(ValueError, match="model has 4 classes, and .* has 3: 'a', 'b', 'c'"):
        load(flats, model=model_of(4))
    wide = load(flats, model=model_of(4), class_names=("c", "b", "a", "d"))[0]
    for images, labels in read(wide):
        assert labels.tolist() == [2 - label_of(value) for value in values(images)]


@pytest.mark.parametrize("name", ["arrays.npz", "records"])
def test_validation_labels_are_the_models_too(same_images, tmp_path, name):
    """Whose own order, in a file that has class names, is another one."""
    root, _, _ = same_images
    source = root / name
    if name == "records":
        prepare(open_source(root / "photos"), tmp_path / "r", 1, progress=False)
        source = f"records:{tmp_path}/r"
    model = model_of(3, class_names=("cow", "ant", "bee"))
    _, validation = load(source, 10, model, validation=source)
    ((_, labels, _),) = read(validation)
    assert np.bincount(labels).tolist() == [3, 4, 3]  # cows, ants and bees


def test_labels_that_are_only_numbers_are_the_models(tmp_path):
    images = np.zeros((4, 3, 3, 1), "uint8")
    few = load((images, np.array([0, 1, 1, 0])), one_hot=True, validation=False)[0]
    assert few.element_spec[1].shape == (4, 3)  # the last class is just not there
    with pytest.raises(ValueError, match=r"Label 3 at index 1 .* classes are 0\.\.2\.$"):
        load((images, np.array([0, 3, 1, 1])))
    with pytest.raises(ValueError, match=r"Label 3 at index 2 .* Do the labels start at 1\?"):
        load((images, np.array([1, 2, 3, 1])))
    with pytest.raises(ValueError, match="Label -1 at index 1"):
        load((images, np.array([0, -1, 2, 2])))


# --- Labels as the loss needs them --------------------------------------------------------------


def compiled(loss, **fields):
    model = model_of(3, **fields)
    return types.SimpleNamespace(spec=model.spec, compiled=True, loss=loss)


@pytest.mark.parametrize(
    "model, arguments, one_hot",
    [
        (MODEL, {}, False),
        (MODEL, {"one_hot": True}, True),
        (MODEL, {"augment": "light2"}, True),
        (compiled("sparse_categorical_crossentropy"), {}, False),
        (compiled("categorical_crossentropy"), {}, True),
        (compiled("binary_crossentropy", classifier_activation="sigmoid"), {}, True),
        (model_of(3, classifier_activation="sigmoid"), {}, True),
        (compiled("mse"), {}, False),
    ],
)
def test_labels_are_what_loss_and_augmentation_need(flats, model, arguments, one_hot):
    for dataset in load(flats, model=model, **arguments):
        assert dataset.element_spec[1].shape == ((4, 3) if one_hot else (4,))
        assert dataset.element_spec[1].dtype.name == ("float32" if one_hot else "int32")


def test_labels_that_cannot_be_both(flats):
    for model, arguments in [
        (compiled("sparse_categorical_crossentropy"), {}),
        (MODEL, {"one_hot": False}),
    ]:
        with pytest.raises(ValueError, match="need labels that are one-hot, and a loss"):
            load(flats, model=model, augment="light2", **arguments)


def test_validation_images_may_be_of_several_classes_where_labels_are_one_hot(flats):
    rows = np.tile([[0, 1, 1], [1, 0, 0]], (2, 1))
    several = arrays(np.zeros((4, 3, 3, 3), "uint8"), rows, tuple(CLASSES))
    with pytest.raises(ValueError, match="are of several classes.* pass `one_hot=True`"):
        load(flats, validation=several)
    _, validation = load(flats, validation=several, one_hot=True)
    assert read(validation)[0][1].tolist() == rows.tolist()


def test_several_classes_and_one_output(tmp_path):
    write(tmp_path / "1.png", flat(1))
    rows = ["path,label", "1.png,a|b", "1.png,", "1.png,c"]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    train, _ = load(tmp_path / "t.csv", 3, validation=False)
    ((_, labels),) = read(train)
    assert sorted(labels.tolist()) == [[0, 0, 0], [0, 0, 1], [1, 1, 0]]
    two = write_folder(tmp_path / "two", {"no": [1, 2], "yes": [3, 4]})
    model = model_of(1, classifier_activation="sigmoid")
    ((images, labels),) = read(load(two, 4, model, validation=False)[0])
    assert labels.dtype == "float32" and labels.shape == (4, 1)
    assert labels[:, 0].tolist() == [float(value > 2) for value in values(images)]
    with pytest.raises(ValueError, match="model has 1 classes"):
        load(two, 4, model_of(1))


# --- What is refused ----------------------------------------------------------------------------


def test_arguments_that_make_no_sense(flats):
    for arguments, message in [
        ({"batch_size": 19}, "from 1 to the number of training images, 18"),
        ({"on_bad_image": "ignore"}, "on_bad_image"),
        ({"start_step": -1}, "start_step"),
        ({"fraction": 0}, "Received: fraction=0"),
        ({"augment": "wild"}, "Received: augment='wild'"),
        ({"seed": -3}, "Received: seed=-3"),
    ]:
        with pytest.raises(ValueError, match=message):
            load(flats, **arguments)
    with pytest.raises(ValueError, match="must be a model of keras_vit"):
        pipelines.load(flats, model=object(), batch_size=2)
    with pytest.raises(ValueError, match="Received: batch_size=0"):
        evaluation_data(flats, MODEL.spec, 0, Targets("index", 3))
