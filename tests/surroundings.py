"""What some tests need from outside: the corpus of real graphs, and a Python with MXNet 1.9.1.

A test that misses one skips and says which variable to set, unless ``GRAPHSHARE_REQUIRE`` (as ``corpus,oracle``) lists it: then
it fails. CI sets that, so that nothing is skipped unseen. ``large`` stands there for sizes too large for everyday, ``network``
for tests that fetch packages.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).parents[1]
NONE = "none"  # stands for the cases of a corpus that is not there


def missing(what: str, reason: str) -> NoReturn:
    """Skips the test, or fails it where ``what`` is required."""
    if is_required(what):
        pytest.fail(f"{reason} (GRAPHSHARE_REQUIRE lists {what})", pytrace=False)
    pytest.skip(reason)


def is_required(what: str) -> bool:
    """Whether ``GRAPHSHARE_REQUIRE`` lists it."""
    return what in os.environ.get("GRAPHSHARE_REQUIRE", "").replace(" ", "").split(",")


def size_of_day(everyday: int, whole: int) -> int:
    """``whole`` where ``large`` is required, else what takes less time."""
    return whole if is_required("large") else everyday


def corpus_directory() -> Path | None:
    """Where the corpus is, if it is anywhere."""
    named = os.environ.get("GRAPHSHARE_CORPUS")
    directory = Path(named) if named else ROOT.parent / "shared" / "corpus"
    return directory if (directory / "graphs").is_dir() else None


def oracle_path() -> str:
    """The Python that has MXNet, or an empty text."""
    return os.environ.get("GRAPHSHARE_ORACLE", "")


ORACLE_PROCESSOR = {"DNNL_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell"}
"""The processor that MXNet's libraries are told to compute for: any with AVX2 then gives the same numbers."""


def oracle_environment() -> dict[str, str]:
    """Return the environment of a process with MXNet: that of :data:`ORACLE_PROCESSOR`, unless the variables say otherwise."""
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # it is that of another Python
    return {**ORACLE_PROCESSOR, **inherited}


def run_oracle(python: str, *arguments: str | Path, check: bool = True, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a script under the Python that has MXNet, and keep its output; ``options`` are those of :func:`subprocess.run`."""
    command = [python, *map(str, arguments)]
    return subprocess.run(command, env=oracle_environment(), capture_output=True, check=check, **options)


def corpus_names(pattern: str, suffix: str) -> list[str]:
    """Names of the corpus files that ``pattern`` finds, without ``suffix``; ``NONE`` where there is no corpus."""
    directory = corpus_directory()
    found = sorted(path.name.removesuffix(suffix) for path in directory.glob(pattern)) if directory else []
    return found or [NONE]


def corpus_stems(wanted: Callable[[dict[str, Any]], bool] = lambda meta: True) -> list[str]:
    """The graphs whose recorded answers are ``wanted``."""
    directory = corpus_directory()
    if directory is None:
        return [NONE]
    return [stem for stem in corpus_names("graphs/*.json", ".json") if wanted(recorded(directory, stem))] or [NONE]


def recorded(directory: Path, stem: str) -> dict[str, Any]:
    """What is on record about a graph of the corpus."""
    meta: dict[str, Any] = json.loads((directory / "oracle" / f"{stem}.meta.json").read_text())
    return meta
