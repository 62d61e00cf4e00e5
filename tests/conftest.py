"""Fixtures of all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.surroundings import corpus_directory, missing, oracle_path

# Tests start commands in folders of their own, where a relative PYTHONPATH would lead nowhere.
if os.environ.get("PYTHONPATH"):
    os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, os.environ["PYTHONPATH"].split(os.pathsep)))


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The directory of the corpus."""
    directory = corpus_directory()
    if directory is None:
        missing("corpus", "no corpus: set GRAPHSHARE_CORPUS to its directory")
    return directory


@pytest.fixture(scope="session")
def oracle_python() -> str:
    """A Python with MXNet 1.9.1."""
    path = oracle_path()
    if not path:
        missing("oracle", "no oracle: set GRAPHSHARE_ORACLE to a Python that has MXNet 1.9.1")
    return path
