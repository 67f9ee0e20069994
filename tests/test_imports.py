"""Imports point one way, and the library needs little: read from the source, without running it."""

import ast
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]

# Each folder may import itself and what stands before it.
ORDER = (
    {"layers"},
    {"models"},
    {"weights", "analysis", "optimizers"},
    {"applications"},
)
LEVEL = {folder: level for level, folders in enumerate(ORDER) for folder in folders}

# Imported where they are needed, since not everybody has them.
OPTIONAL = {"h5py", "jax", "matplotlib", "PIL", "huggingface_hub", "torch"}


def sources(folder):
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert len(paths) > 1
    return paths


def imports(path):
    """(module, whether it is imported when the file is) for every import of a file."""
    tree = ast.parse(path.read_text())
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where a name comes from"
            yield node.module, id(node) in top
            yield from ((f"{node.module}.{alias.name}", id(node) in top) for alias in node.names)


@pytest.mark.parametrize("path", sources("keras_vit"), ids=lambda path: path.stem)
def test_no_folder_imports_a_higher_one(path):
    folder = path.relative_to(ROOT / "keras_vit").parts[0]
    for module, _ in imports(path):
        parts = module.split(".")
        assert parts[0] != "pipelines", f"{path} imports {module}"
        if folder in LEVEL and parts[0] == "keras_vit" and len(parts) > 1 and parts[1] in LEVEL:
            other = parts[1]
            lower = LEVEL[other] < LEVEL[folder]
            assert other == folder or lower, f"{path} imports {module}"


@pytest.mark.parametrize("folder", ["keras_vit", "pipelines", "examples", "tests"])
def test_nobody_imports_keras_source(folder):
    for path in sources(folder):
        private = [module for module, _ in imports(path) if module.startswith("keras.src")]
        assert not private, f"{path} imports {private}"


# Files of one backend alone, and its package. They are imported where that backend computes.
OF_A_BACKEND = {
    "keras_vit/layers/torch_calls.py": "torch",
    "keras_vit/layers/torch_forms.py": "torch",
    "keras_vit/layers/torch_images.py": "torch",
    "keras_vit/layers/torch_onednn.py": "torch",
    "keras_vit/optimizers/torch_updates.py": "torch",
}


def test_the_library_imports_keras_numpy_and_the_standard_library():
    allowed = {"keras", "numpy", "keras_vit", *sys.stdlib_module_names}
    modules = {path.removesuffix(".py").replace("/", ".") for path in OF_A_BACKEND}
    for path in sources("keras_vit"):
        own = OF_A_BACKEND.get(path.relative_to(ROOT).as_posix())
        for module, at_once in imports(path):
            name = module.split(".")[0]
            optional = name == own or (name in OPTIONAL and not at_once)
            assert name in allowed or optional, f"{path}: {module}"
            at_home = own is not None or not at_once
            assert at_home or module not in modules, f"{path} imports {module} at once"


def test_one_file_imports_tensorflow():
    importers = {
        path.relative_to(ROOT).as_posix()
        for path in [*sources("keras_vit"), *sources("pipelines"), *sources("examples")]
        for module, _ in imports(path)
        if module.split(".")[0] == "tensorflow"
    }
    assert importers == {"pipelines/_tensorflow.py"}
