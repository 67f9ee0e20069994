"""docs/speed.md: that every line in it is one that the programs take."""

import importlib
import pathlib
import re
import shlex

import keras
import pytest

from pipelines import cli

pytestmark = pytest.mark.skipif(
    keras.config.backend() != "tensorflow", reason="no backend has a part in it"
)

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "speed.md"
TEXT = GUIDE.read_text("utf-8")
LINES = sorted(set(re.findall(r"python benchmarks/(\w+)\.py ([^\n`]*)", TEXT)))


@pytest.mark.parametrize("script, arguments", LINES)
def test_every_command_line_is_taken(script, arguments, monkeypatch, capsys):
    """With `--help` at its end the parser checks the values; the names are in the help."""
    with pytest.raises(SystemExit) as left:
        importlib.import_module(script).main([*shlex.split(arguments), "--help"])
    assert left.value.code == 0
    assert set(re.findall(r"--[a-z-]+", arguments)) <= set(capsys.readouterr().out.split())


def test_every_benchmark_is_in_the_table():
    listed = set(re.findall(r"`(\w+)\.py`", TEXT))
    helpers = {"compare", "contender", "macs", "measure", "pipeline_memory", "run"}
    scripts = {path.stem for path in GUIDE.parents[1].glob("benchmarks/*.py")}
    assert listed == scripts - helpers


def test_the_options_of_the_command_are_in_the_table(capsys):
    assert cli.main(["bench", "--help"]) == 0
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
    assert options <= set(re.findall(r"--[a-z-]+", TEXT))
