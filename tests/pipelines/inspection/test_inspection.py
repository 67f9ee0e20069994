"""The page of pictures: what is on it for each kind of model, and that its links lead somewhere."""

import html.parser
import pathlib

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("matplotlib")

import small_models as small
import small_resnets
from PIL import Image
from quick_compilation import quickly

import keras_vit
from pipelines.cli import main
from pipelines.inspection.inspect import inspect

PICTURES = {
    "patch_filters",
    "position_similarity",
    "attention_distance",
    "attention_rollout",
    "attention_rollout_cut",
    "attention_heads",
    "representations",
}


class Page(html.parser.HTMLParser):
    """Headings, pictures and cells of a page; every tag must be closed."""

    def __init__(self, path):
        super().__init__()
        self.headings, self.pictures, self.rows, self.text = [], [], [], ""
        self._open, self._folder = [], path.parent
        self.feed(path.read_text(encoding="utf-8"))
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            source = dict(attrs)["src"]
            assert dict(attrs)["alt"]
            assert (self._folder / source).is_file() and "/" not in source
            self.pictures.append(source.removesuffix(".png"))
        elif tag == "tr":
            self.rows.append([])
        if tag not in ("img", "meta"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self._open and self._open[-1] == "h2":
            self.headings.append(data)
        if self._open and self._open[-1] in ("td", "th"):
            self.rows[-1].append(data)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of three photographs of other sizes than the model's, one grey, and a note."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for name, shape in (("a & b.png", (30, 50, 3)), ("c.png", (60, 40, 3)), ("d.jpg", (32, 32))):
        Image.fromarray(rng.integers(0, 256, shape, "uint8")).save(folder / name)
    (folder / "note.txt").write_text("no image")
    return folder


@pytest.fixture(scope="module")
def written(photos, tmp_path_factory):
    """The model and the page that the command wrote for it."""
    with quickly():
        variant = small.build(num_registers=2)
        folder = tmp_path_factory.mktemp("inspect")
        variant.model.save(folder / "model.keras")
        arguments = ["--images", str(photos), "--out", str(folder / "new" / "out")]
        assert main(["inspect", str(folder / "model.keras"), *arguments]) == 0
    return variant.model, folder / "new" / "out" / "index.html"


def test_every_picture_is_on_the_page(written):
    page = Page(written[1])
    assert set(page.pictures) == PICTURES
    files = {path.name for path in written[1].parent.iterdir()}
    assert files == {"index.html", *(f"{name}.png" for name in PICTURES)}
    for name in PICTURES:
        pixels = np.asarray(Image.open(written[1].parent / f"{name}.png").convert("L"))
        assert min(pixels.shape) > 100 and pixels.std() > 5


def test_captions_name_the_papers_figures(written):
    text = Page(written[1]).text
    for figure in ("figure 7, left", "figure 7, centre", "figure 7, right", "figures 6 and 14"):
        assert figure in text


def test_the_page_names_the_images_and_the_model(written):
    page = Page(written[1])
    assert "3 image(s): a & b.png, c.png, d.jpg." in page.text
    assert ["image", "24 x 40 pixels"] in page.rows
    assert ["patches", "3 x 5, 8 x 8 pixels apart"] in page.rows
    assert ["tokens before them", "3"] in page.rows
    assert ["parameters", f"{written[0].count_params():,}"] in page.rows


def test_numbers_on_the_page(written, photos):
    model, path = written
    page = Page(path)
    rows = {row[0]: row[1:] for row in page.rows}
    from pipelines.evaluation.predict import read_view

    views = [read_view(file, model.spec) for file in sorted(photos.glob("*.[pj]*g"))]
    images = np.stack(views).astype("float32") / 127.5 - 1
    distances = keras_vit.analysis.attention_distance(model, images)
    for block in (0, 1):
        values = (distances[block].min(), distances[block].mean(), distances[block].max())
        np.testing.assert_allclose([float(each) for each in rows[str(block)]], values, atol=0.06)
    # Between random places of 3 x 5, 8 pixels apart: the mean over all pairs.
    places = [(8 * i, 8 * j) for i in range(3) for j in range(5)]
    mean = np.mean([np.hypot(a - c, b - d) for a, b in places for c, d in places])
    assert f"would be at {mean:.1f} pixels" in page.text
    maps = keras_vit.analysis.attention_rollout(model, images)
    shares = [float(rows[name][0].rstrip("%")) for name in ("a & b.png", "c.png", "d.jpg")]
    np.testing.assert_allclose(shares, 100 * maps.sum(axis=(1, 2)), atol=0.06)
    similarity = keras_vit.analysis.position_similarity(model)
    beside = np.mean([similarity[i, j, i, j + 1] for i in range(3) for j in range(4)])
    np.testing.assert_allclose(float(rows["neighbours in a row"][0]), beside, atol=6e-4)


def test_without_images_the_page_says_what_is_missing(tmp_path):
    page = Page(inspect(small.variant("relative_patches").model, tmp_path))
    assert page.pictures == ["patch_filters", "position_similarity"]
    assert page.headings == ["Filters", "Positions", "What needs images"]


def test_a_resnet_has_filters_only(tmp_path, photos):
    model, _ = small_resnets.bit()
    page = Page(inspect(model, tmp_path, [photos]))
    assert page.pictures == ["patch_filters"]
    assert "neither position embeddings nor attention" in page.text
    assert ["family", "BiT ResNet"] in page.rows


def test_a_hybrid_without_a_class_token(tmp_path, photos):
    model, _, _ = small_resnets.hybrid(pooling="avg", class_token=False)
    page = Page(inspect(model, tmp_path, [photos / "c.png"]))
    assert set(page.pictures) == PICTURES
    assert ["patches", "5 x 6, 8 x 8 pixels apart"] in page.rows
    assert "standardised filters of the ResNet's first convolution" in page.text
    assert "over one image" in page.text


def test_a_model_without_positions(tmp_path):
    page = Page(inspect(small.variant("huggingface").model, tmp_path))
    assert page.pictures == ["patch_filters"]
    assert "no position embeddings" in page.text


def test_the_number_of_images_is_limited(tmp_path, photos):
    with quickly():
        page = Page(inspect(small.variant("plain").model, tmp_path, [photos], limit=2))
    assert "2 image(s): a & b.png, c.png." in page.text


def test_errors_are_sentences(tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["inspect", "no_such_model", "--out", str(out)]) == 2
    assert "which is neither" in capsys.readouterr().err
    model = small.variant("plain").model
    with pytest.raises(FileNotFoundError, match="There is no image at"):
        inspect(model, out, [tmp_path / "nothing.png"])
    pathlib.Path(tmp_path / "broken.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match="broken.png"):
        inspect(model, out, [tmp_path / "broken.png"])
    with pytest.raises(ValueError, match="`limit` must be an integer"):
        inspect(model, out, limit=0)
    with pytest.raises(ValueError, match="`inspect` needs a model made by keras_vit"):
        inspect(object(), out)
