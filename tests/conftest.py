"""Lets the tests import the modules that stand beside them, such as `reference_vit`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
