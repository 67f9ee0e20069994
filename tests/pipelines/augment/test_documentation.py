"""The guide's numbers are the program's."""

import re
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")

from pipelines.augment import CROPS, PRESETS

GUIDE = Path(__file__).parents[3] / "docs" / "augmentation.md"


def rows(first):
    """Cells of the rows of the table whose header begins with a word."""
    table = re.search(rf"^\| {first} \|.*?\n\n", GUIDE.read_text(), re.S | re.M).group()
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:-1]]


def test_presets():
    table = {name.strip('`"'): cells for name, *cells in rows("preset")}
    assert list(table) == list(PRESETS)
    for name, augment in PRESETS.items():
        layers, magnitude = augment.randaugment or ("", "")
        assert table[name] == [str(layers), str(magnitude), str(augment.mixup or "")]


def test_crops():
    assert [name.strip('`"') for name, _ in rows("`crop=`")] == list(CROPS)


def test_the_slight_crop():
    texts = {name.strip('`"'): text for name, text in rows("`crop=`")}
    smallest, narrowest, widest = re.match(
        r"(\d+) to 100 % of the area, width / height from 4/(\d) to (\d)/4", texts["slight"]
    ).groups()
    crop = CROPS["slight"]
    assert crop.area == (int(smallest) / 100, 1)
    assert crop.aspect == (4 / int(narrowest), int(widest) / 4)


def test_the_code_of_changed_presets_runs():
    code = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S)[1]
    names = {}
    exec(code, names)
    assert names["augment"].crop.fraction == 384 / 448 and not names["augment"].flip
