"""What docs/data.md shows does run."""

import pathlib
import re
import shlex

import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("matplotlib")

from image_files import write_folder
from tf_data import once

from pipelines.cli import main

pytestmark = once

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "data.md"


def test_every_block_runs_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "photos", {"a": range(8), "b": range(10, 16)})
    blocks = re.findall(r"```(\w+)\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "python", "sh", "python", "sh", "python"]
    names = {}
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, GUIDE.name, "exec"), names)
        else:
            program, *arguments = shlex.split(text)
            assert program == "keras-vit" and main(arguments) == 0
    written = {"sizes.png", "preview.png", "records/train.json"}
    assert all((tmp_path / name).is_file() for name in written)
    images, labels = next(names["train"].as_numpy_iterator())
    assert images.shape == (4, 64, 96, 3) and labels.shape == (4,)
