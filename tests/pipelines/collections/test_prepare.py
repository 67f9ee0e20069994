"""Records written from a source: all its images, whole files only, and the same again."""

import io
import json

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from image_files import encoded, flat, write, write_folder
from PIL import Image
from tf_data import once

from pipelines._tensorflow import tf
from pipelines.cli import main
from pipelines.collections.prepare import prepare
from pipelines.sources import open_source

pytestmark = once

CLASSES = {"a": range(1, 6), "b": range(11, 15)}


@pytest.fixture
def photos(tmp_path):
    return open_source(write_folder(tmp_path / "photos", CLASSES))


def rows(prefix):
    """`{bytes: label}` and the names of the files that they came from."""
    stream = open_source(f"records:{prefix}")
    images = {data: int(label) for data, label in stream.records().as_numpy_iterator()}
    return stream, images


def read_files(folder):
    return {path.name: path.read_bytes() for path in folder.glob("r*") if path.is_file()}


def test_records_hold_all_images_as_they_were(photos, tmp_path):
    assert prepare(photos, tmp_path / "out" / "r", 4, progress=False) == []
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [*(f"r-0000{i}-of-00004.tfrecord" for i in range(4)), "r.json"]
    stream, images = rows(tmp_path / "out" / "r")
    assert stream.class_names == ("a", "b") and stream.count == 9
    expected = {flat(value): label for label, x in enumerate(CLASSES.values()) for value in x}
    assert images == expected and list(images) != list(expected)  # shuffled
    index = json.loads((tmp_path / "out" / "r.json").read_text())
    assert sorted(index["counts"]) == [2, 2, 2, 3] and index["multi_label"] is False
    record = next(iter(tf.data.TFRecordDataset(str(tmp_path / "out" / names[0]))))
    example = tf.train.Example.FromString(record.numpy())
    assert set(example.features.feature) == {
        "image/encoded",
        "image/class/label",
        "image/filename",
    }
    name = example.features.feature["image/filename"].bytes_list.value[0].decode()
    data = example.features.feature["image/encoded"].bytes_list.value[0]
    assert (tmp_path / "photos" / name).read_bytes() == data


def test_large_images_are_shrunk_upright_and_keep_their_kind(tmp_path):
    turned = Image.Exif()
    turned[0x0112] = 6
    picture = Image.fromarray(np.kron([[50, 200]], np.ones((60, 60))).astype("uint8"))
    write(tmp_path / "photos" / "a" / "1.jpg", encoded(picture, "JPEG", exif=turned.tobytes()))
    write(tmp_path / "photos" / "b" / "1.png", encoded(picture))
    write(tmp_path / "photos" / "b" / "2.png", flat(7, (30, 30)))
    prepare(open_source(str(tmp_path / "photos")), tmp_path / "r", 1, 30, progress=False)
    found = {}
    for data in rows(tmp_path / "r")[1]:
        with Image.open(io.BytesIO(data)) as image:
            found[image.format, image.size] = np.asarray(image.convert("L"))
    assert set(found) == {("JPEG", (15, 30)), ("PNG", (30, 15)), ("PNG", (30, 30))}
    upright = found["JPEG", (15, 30)]
    assert abs(upright[:13].mean() - 50) < 5 and abs(upright[17:].mean() - 200) < 5
    assert flat(7, (30, 30)) in rows(tmp_path / "r")[1]  # not larger: not touched


def test_an_interrupted_run_goes_on_and_a_finished_one_stays(photos, tmp_path, monkeypatch):
    prepare(photos, tmp_path / "r", 3, seed=4, progress=False)
    whole = read_files(tmp_path)
    prepare(photos, tmp_path / "r", 3, seed=4, progress=False)
    assert read_files(tmp_path) == whole
    for path in tmp_path.glob("r*"):
        path.unlink()

    rename, written = tf.io.gfile.rename, []

    def fail_at_the_second(source, target, overwrite=False):
        if target.endswith(".tfrecord"):
            written.append(target)
            if len(written) == 2:
                raise OSError("no space left")
        rename(source, target, overwrite)

    with monkeypatch.context() as patch:
        patch.setattr(tf.io.gfile, "rename", fail_at_the_second)
        with pytest.raises(OSError, match="no space left"):
            prepare(photos, tmp_path / "r", 3, seed=4, progress=False)
    assert set(read_files(tmp_path)) == {"r-00000-of-00003.tfrecord", "r.unfinished"}
    first = (tmp_path / "r-00000-of-00003.tfrecord").stat().st_mtime_ns
    with pytest.raises(ValueError, match="other settings, see .*r.unfinished"):
        prepare(photos, tmp_path / "r", 3, seed=5, progress=False)
    prepare(photos, tmp_path / "r", 3, seed=4, progress=False)
    assert read_files(tmp_path) == whole
    assert (tmp_path / "r-00000-of-00003.tfrecord").stat().st_mtime_ns == first


def test_shards_of_others_are_not_mixed_with_ours(photos, tmp_path):
    prepare(photos, tmp_path / "r", 2, progress=False)
    with pytest.raises(ValueError, match="another source or with other settings"):
        prepare(photos, tmp_path / "r", 3, progress=False)
    (tmp_path / "r.json").unlink()
    with pytest.raises(ValueError, match="There are shards of that name already: .*r-00000-of"):
        prepare(photos, tmp_path / "r", 2, progress=False)


def test_bad_images_stop_it_or_are_skipped(photos, tmp_path, capsys):
    write(tmp_path / "photos" / "a" / "002.png", b"")
    with pytest.raises(ValueError, match="a/002.png is empty"):
        prepare(photos, tmp_path / "r", 2, progress=False)
    assert not list(tmp_path.glob("*.tmp"))
    (bad,) = prepare(photos, tmp_path / "r", 2, on_bad_image="skip", progress=False)
    assert bad.origin.endswith("a/002.png")
    assert rows(tmp_path / "r")[0].count == 8
    arguments = [str(tmp_path / "photos"), "--out", str(tmp_path / "s"), "--shards", "2", "--quiet"]
    assert main(["prepare", *arguments]) == 2
    assert "002.png is empty" in capsys.readouterr().err
    assert main(["prepare", *arguments, "--on-bad-image", "skip"]) == 0
    out = capsys.readouterr().out
    assert "skipped " in out and f"wrote 8 images; their source is records:{tmp_path}/s" in out


def test_arrays_and_several_classes(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 1), "uint8")
    labels = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]])
    prepare(open_source((images, labels)), tmp_path / "r", 2, progress=False)
    stream = open_source(f"records:{tmp_path}/r")
    assert stream.multi_label
    for data, label in stream.records().as_numpy_iterator():
        pixels = tf.io.decode_png(data).numpy()
        (place,) = [i for i in range(3) if (images[i] == pixels).all()]
        assert label.tolist() == labels[place].tolist()


def test_records_are_prepared_again_in_their_order(photos, tmp_path):
    prepare(photos, tmp_path / "r", 3, progress=False)
    stream = open_source(f"records:{tmp_path}/r")
    prepare(stream, tmp_path / "s", 2, progress=False)
    again = open_source(f"records:{tmp_path}/s")
    assert again.class_names == ("a", "b")
    assert rows(tmp_path / "s")[1] == rows(tmp_path / "r")[1]
