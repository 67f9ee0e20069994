"""Lets the tests here import the benchmarks, which are scripts."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
