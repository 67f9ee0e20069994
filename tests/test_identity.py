"""Both packages notice another distribution's package of the same name, and name it."""

import importlib.util
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import keras_vit
from keras_vit import _identity

ROOT = Path(__file__).resolve().parent.parent


def install(site: Path, distribution: str, *files: str) -> None:
    """Leaves in `site` what pip leaves of a distribution with these (empty) files."""
    info = f"{distribution.replace('-', '_')}-1.0.1.dist-info"
    for file in files:
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).touch()
    (site / info).mkdir(parents=True)
    (site / info / "METADATA").write_text(f"Name: {distribution}\nVersion: 1.0.1\n")
    (site / info / "RECORD").write_text(
        "".join(f"{file},,\n" for file in (*files, f"{info}/RECORD"))
    )


def identity_installed_in(site: Path):
    """Our module as it runs when keras_vit is installed in `site`."""
    (site / "keras_vit").mkdir(parents=True, exist_ok=True)
    path = shutil.copy(_identity.__file__, site / "keras_vit")
    spec = importlib.util.spec_from_file_location("identity_in_site", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("package", "rival"), [("keras_vit", "keras-vit"), ("pipelines", "pipelines")]
)
def test_overwritten_files_are_noticed(site, package, rival):
    install(site, rival, f"{package}/__init__.py")
    with pytest.raises(ImportError, match=rf"keras3-vit and {rival} both .*pip uninstall {rival}`"):
        identity_installed_in(site).check_identity(package)


def test_rival_in_another_folder_is_no_concern_of_ours(site):
    install(site, "keras-vit", "keras_vit/__init__.py")
    _identity.check_identity()


def test_distribution_of_a_rivals_name_without_the_package_is_no_rival(site):
    install(site, "keras-vit", "something_else/__init__.py")
    identity_installed_in(site).check_identity()


def test_check_does_not_look_through_everything_installed(monkeypatch):
    def scan(*args, **kwargs):
        raise AssertionError("a scan of all distributions, on every import")

    monkeypatch.setattr(metadata, "packages_distributions", scan)
    monkeypatch.setattr(metadata, "distributions", scan)
    _identity.check_identity("keras_vit")
    _identity.check_identity("pipelines")


def import_pipelines_with(site: Path) -> str:
    """The error of `import pipelines` where `site` comes before us on the path."""
    code = f"import sys; sys.path[:0] = [{str(site)!r}, {str(ROOT)!r}]; import pipelines"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    return done.stderr.strip().splitlines()[-1]


def test_pipelines_names_the_distribution_imported_in_place_of_the_library(tmp_path):
    install(tmp_path, "keras-vit", "keras_vit/__init__.py", "keras_vit/vit.py")
    error = import_pipelines_with(tmp_path)
    assert error.startswith("ImportError: `pipelines` needs the `keras_vit` of keras3-vit")
    assert str(tmp_path / "keras_vit" / "__init__.py") in error
    assert "belongs to keras-vit. Run `pip uninstall keras-vit`" in error


def test_pipelines_refuses_an_impostor_that_nobody_installed(tmp_path):
    (tmp_path / "keras_vit").mkdir()
    (tmp_path / "keras_vit" / "__init__.py").touch()
    assert "No installed distribution owns it" in import_pipelines_with(tmp_path)


def test_library_marks_itself_as_the_distribution_it_is():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert keras_vit.__distribution__ == project["name"] == _identity.DISTRIBUTION
    assert keras_vit.__version__ == project["version"]
