"""Applies the rules of the system that ``GRAPHSHARE_TEST_SYSTEM`` names to each Python with this folder on its path."""

import os
import sys

if os.environ.get("GRAPHSHARE_TEST_SYSTEM"):
    sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))
    import pathlib  # noqa: F401  (before the rules: these know this system)
    import tempfile  # noqa: F401

    from tests.systems.rules import apply

    apply(os.environ["GRAPHSHARE_TEST_SYSTEM"])
