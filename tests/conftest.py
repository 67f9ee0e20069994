"""Set before any test module is imported: where helpers are found, and in which order files run."""

import sys
from pathlib import Path

# Lets the tests import the modules that stand beside them, such as `reference_vit`.
sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection_modifyitems(items):
    """The longest files first, so that no worker waits for another at the end."""
    items.sort(key=lambda item: "distribution" not in item.path.parts)
