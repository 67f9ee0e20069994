"""The check of a collection: all that is wrong is found, and nothing else is called an error."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from image_files import encoded, flat, write, write_folder
from PIL import Image
from tf_data import once

from pipelines.cli import main
from pipelines.collections.check_data import check_data, plot_sizes

pytestmark = once

RGB = Image.fromarray(np.random.default_rng(0).integers(0, 256, (30, 40, 3), "uint8"))


@pytest.fixture
def photos(tmp_path):
    write_folder(tmp_path / "train", {"a": [1, 2], "b": [3, 4]})
    write_folder(tmp_path / "val", {"a": [5], "b": [6]})
    return tmp_path


def run(*arguments):
    return main(["check-data", *map(str, arguments), "--quiet"])


def test_a_good_collection(photos, capsys):
    report = check_data(photos, progress=False)
    assert not report.failed and report.class_names == ("a", "b")
    assert report.class_counts("train") == {"a": 2, "b": 2}
    assert report.class_counts("validation") == {"a": 1, "b": 1}
    assert sorted(map(tuple, report.sizes().tolist())) == [(5, 7)] * 6
    assert not (report.bad or report.odd or report.mislabelled or report.repeated)
    assert run(photos) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "train: 4 images of 2 classes" and lines[1].split() == ["2", "a"]
    assert lines[-1] == "height 5 to 5, width 7 to 7 pixels"


def test_bad_images_and_empty_classes_are_errors(photos, capsys):
    write(photos / "val" / "b" / "bad.png", flat(9)[:50])
    assert run(photos) == 1
    assert "ERROR: cannot be decoded: 1" in capsys.readouterr().out
    (bad,) = check_data(photos, progress=False).bad
    assert bad.origin.endswith("val/b/bad.png") and "cannot be decoded" in bad.fault
    (photos / "val" / "b" / "bad.png").unlink()
    for file in (photos / "train" / "b").iterdir():
        file.unlink()
    with pytest.warns(UserWarning, match="'b'"):
        assert check_data(photos, progress=False).empty_classes == ["b"]


def test_the_same_image_in_both_splits_is_an_error(photos, capsys):
    write(photos / "val" / "b" / "again.png", flat(2))
    write(photos / "train" / "b" / "twice.png", flat(3))
    report = check_data(photos, progress=False)
    ((mine, theirs),) = report.in_both_splits
    assert mine.endswith("train/a/001.png") and theirs.endswith("val/b/again.png")
    (twice,) = report.repeated
    assert (
        sorted(path[-9:] for path in twice) == ["twice.png", "b/000.png"][::-1] or len(twice) == 2
    )
    assert run(photos) == 1
    out = capsys.readouterr().out
    assert "ERROR: in training and validation: 1" in out and "come more than once: 1" in out


def test_what_is_converted_and_what_is_misnamed_is_said(photos, capsys):
    turned = Image.Exif()
    turned[0x0112] = 6
    deep = np.full((3, 4), 40_000, "uint16")
    files = {
        "inks.jpg": (encoded(RGB.convert("CMYK"), "JPEG"), ("CMYK",)),
        "palette.png": (encoded(RGB.quantize(16)), ("palette",)),
        "deep.png": (encoded(deep), ("16 bits a channel",)),
        "bit.png": (encoded(RGB.convert("1")), ("1 bit",)),
        "clear.png": (encoded(RGB.convert("RGBA")), ("RGBA", "transparent")),
        "turned.jpg": (encoded(RGB, "JPEG", exif=turned.tobytes()), ("EXIF orientation 6",)),
        "moves.gif": (
            encoded(RGB.convert("L"), "GIF", save_all=True, append_images=[RGB.rotate(9)]),
            None,
        ),
        "grey.jpeg": (encoded(RGB.convert("L"), "JPEG"), ()),
        "really.jpg": (encoded(RGB), ()),
    }
    for name, (data, _) in files.items():
        write(photos / "train" / "a" / name, data)
    report = check_data(photos, progress=False)
    odd = {facts.origin.rsplit("/", 1)[-1]: facts.odd for facts in report.odd}
    assert "2 frames" in odd.pop("moves.gif")
    assert odd == {name: texts for name, (_, texts) in files.items() if texts}
    (misnamed,) = report.mislabelled
    assert misnamed.origin.endswith("really.jpg") and misnamed.mislabelled == "PNG"
    assert not report.failed and run(photos) == 0
    out = capsys.readouterr().out
    assert "really.jpg  is PNG" in out and "inks.jpg  CMYK" in out


def test_long_lists_are_cut_unless_asked_for(photos, capsys):
    for i in range(12):
        write(photos / "train" / "a" / f"{i}.png", flat(100 + i)[:30])
    run(photos)
    assert "and 2 more; --list names them all" in capsys.readouterr().out
    run(photos, "--list")
    assert "more;" not in capsys.readouterr().out


def test_pictures_are_drawn(photos, tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    histogram, preview = tmp_path / "out" / "sizes.png", tmp_path / "out" / "preview.png"
    arguments = ["--histogram", histogram, "--preview", preview, "--image-size", "16x24"]
    assert run(photos, *arguments, "--augment", "light2") == 0
    said = capsys.readouterr().out
    for path in (histogram, preview):
        assert f"wrote {path}" in said
        with Image.open(path) as image:
            assert image.format == "PNG" and min(image.size) > 300
    monkeypatch.chdir(tmp_path)
    assert run(photos, "--histogram", "--preview", "--image-size", "16x24") == 0
    assert (tmp_path / "sizes.png").is_file() and (tmp_path / "preview.png").is_file()
    figure = plot_sizes(check_data(photos, progress=False))
    heights = [patch.get_height() for patch in figure.axes[0].patches]
    assert sum(heights) == 6 and figure.axes[0].get_xlabel() == "width, pixels"


def test_the_preview_shows_the_images_with_their_classes(photos):
    pytest.importorskip("matplotlib")
    from pipelines.collections.preview import preview

    figure = preview(photos, (8, 8), rows=1, columns=3)
    shown = [axis for axis in figure.axes if axis.images]
    assert len(shown) == 3
    for axis in shown:
        value = int(axis.images[0].get_array()[0, 0, 0])
        assert axis.get_title() == {1: "a", 2: "a", 3: "b", 4: "b"}[value]


def test_arrays_and_records_are_checked_too(tmp_path):
    images = np.stack([np.full((4, 5, 3), value, "uint8") for value in (1, 2, 2)])
    np.savez(tmp_path / "x.npz", x_train=images, y_train=[0, 1, 1], x_val=images[:1], y_val=[0])
    report = check_data(tmp_path / "x.npz", progress=False)
    both = tuple(f"image 0 of {name} in {tmp_path}/x.npz" for name in ("x_train", "x_val"))
    assert report.in_both_splits == [both]
    assert report.class_counts("train") == {"0": 1, "1": 2} and len(report.repeated) == 1


def test_a_wrong_path_is_an_error_of_two(tmp_path, capsys):
    assert run(tmp_path / "none") == 2
    assert "There is no folder" in capsys.readouterr().err
