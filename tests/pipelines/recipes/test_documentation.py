"""What the guide and the README say of recipes is so."""

import pathlib
import re

import keras
import pytest

from pipelines.recipes import FAMILIES, NAMES, resolve

ROOT = pathlib.Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="plain Python: the same on every backend"
)


def test_the_guide_lists_all_recipes():
    rows = re.findall(r"^\| `(\w+)\.py` \| (.*?) \|", (ROOT / "docs/training.md").read_text(), re.M)
    assert {name: tuple(re.findall(r"`(\w+)`", cell)) for name, cell in rows} == FAMILIES


@pytest.mark.parametrize("page", ["README.md", "docs/training.md"])
def test_recipes_in_commands_exist(page):
    named = re.findall(r"keras-vit (?:pretrain|finetune) ([a-z]\w+)", (ROOT / page).read_text())
    assert named and set(named) <= set(NAMES)


def test_resolutions_in_the_table_of_the_readme():
    text = (ROOT / "README.md").read_text()
    rows = re.findall(r"^\| `keras-vit \w+ (\w+).*?(\d+)x(\d+)\)", text, re.M)
    assert len(rows) == 3
    for name, height, width in rows:
        assert resolve(name).model.image_size == (int(height), int(width))
