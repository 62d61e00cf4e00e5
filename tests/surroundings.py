"""What some tests need from outside: the corpus of real graphs, files of cases, and Pythons with
MXNet 1.9.1 or PaddlePaddle 3.

A test that misses one skips and says which variable to set, unless ``GRAPHSHARE_REQUIRE`` (as
``corpus,oracle``) lists it: then it fails. CI sets that, so that nothing is skipped unseen.
``large`` stands there for sizes too large for everyday, ``network`` for tests that fetch packages.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest

from tests.slow import read_slow

ROOT = Path(__file__).parents[1]
NONE = "none"  # stands for the cases of a corpus that is not there
Case = TypeVar("Case")
MANY = 2
"""Cases of a function that an everyday run of all tests takes at least; of more than ten times as
many it takes a tenth.
"""
TENTHS = 10
IN_EACH_TENTH = r"tests/(corpus/test_forward\.py|gradients/|training/|unit/execute/(?!engines/test_confined_session\.py))"
"""The tests that rest most on the last bits of products, which each tenth takes; those of confined
sessions test a process.
"""


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


def pick_everyday(
    cases: Iterable[Case], one_in: int, name: Callable[[Case], str] = str
) -> list[Case]:
    """Return all cases where ``large`` is required, else one in so many and at least one: those
    whose names hash lowest.
    """
    every = {name(case): case for case in cases}
    if is_required("large"):
        return list(every.values())
    picked = rank(every)[: -(-len(every) // one_in)]
    return [case for each, case in every.items() if each in set(picked)]


def rank(names: Iterable[str]) -> list[str]:
    """Sort names by their hashes, so that another name in a list hardly changes which are picked."""
    return sorted(names, key=lambda name: zlib.crc32(name.encode()))


def mark_everyday(names: Iterable[str], one_in: int) -> list[Any]:
    """Return all cases of a test, of which those that :func:`pick_everyday` leaves out are marked ``large``."""
    every = list(names)
    picked = set(pick_everyday(every, one_in))
    return [
        pytest.param(name, marks=[] if name in picked else [pytest.mark.large]) for name in every
    ]


def is_of_all_tests(config: pytest.Config) -> bool:
    """Whether a run asks for no tests by path, name or mark, nor for those that failed last."""
    chosen = config.option.keyword or config.option.markexpr or getattr(config.option, "lf", False)
    return not chosen and all(
        Path(argument).resolve() == ROOT / "tests" for argument in config.args
    )


def find_surplus(tests: Iterable[str]) -> set[str]:
    """Return the tests that a run of everything leaves out everyday: those of slow functions; of
    a function with many cases it takes a part.
    """
    functions: dict[str, list[str]] = {}
    for test in tests:
        functions.setdefault(test.partition("[")[0], []).append(test)
    surplus: set[str] = set()
    for function, cases in functions.items():
        count = 0 if function in read_slow() else max(MANY, len(cases) // 10)
        surplus.update(rank(cases)[count:])
    return surplus


def pick_tenth(tests: Iterable[Case], name: Callable[[Case], str] = str) -> list[Case]:
    """Return the tests of the tenth that ``GRAPHSHARE_TENTH`` names, 0 to 9, and those of each; all
    tests where it is unset.

    Raises:
        pytest.UsageError: the variable names no tenth.
    """
    tenth = os.environ.get("GRAPHSHARE_TENTH")
    if not tenth:
        return list(tests)
    if tenth not in map(str, range(TENTHS)):
        raise pytest.UsageError(
            f"GRAPHSHARE_TENTH is {tenth!r}: expected a number from 0 to {TENTHS - 1}"
        )

    def is_taken(name: str) -> bool:
        return re.match(IN_EACH_TENTH, name) is not None or zlib.crc32(
            name.encode()
        ) % TENTHS == int(tenth)

    return [test for test in tests if is_taken(name(test))]


def corpus_directory() -> Path | None:
    """Where the corpus is, if it is anywhere."""
    named = os.environ.get("GRAPHSHARE_CORPUS")
    directory = Path(named) if named else ROOT.parent / "shared" / "corpus"
    return directory if (directory / "graphs").is_dir() else None


def cases_directory() -> Path | None:
    """Where small files are that a proof once judged wrongly, if they are anywhere."""
    named = os.environ.get("GRAPHSHARE_CASES")
    directory = Path(named) if named else ROOT.parent / "shared" / "cases"
    return directory if (directory / "verify").is_dir() else None


def oracle_path() -> str:
    """The Python that has MXNet, or an empty text."""
    return os.environ.get("GRAPHSHARE_ORACLE", "")


def paddle_path() -> str:
    """The Python that has PaddlePaddle 3, or an empty text."""
    return os.environ.get("GRAPHSHARE_PADDLE", "")


ORACLE_PROCESSOR = {"DNNL_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell"}
"""The processor that MXNet's libraries are told to compute for: any with AVX2 then gives the same numbers."""


def oracle_environment() -> dict[str, str]:
    """Return the environment of a process with MXNet: that of :data:`ORACLE_PROCESSOR`, unless the
    variables say otherwise.
    """
    # It is that of another Python
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return {**ORACLE_PROCESSOR, **inherited}


def run_oracle(
    python: str, *arguments: str | Path, check: bool = True, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a script under the Python that has MXNet, and keep its output; ``options`` are those of
    :func:`subprocess.run`.

    Raises:
        AssertionError: it is to be checked, and failed; the text has the last of what it wrote.
    """
    command = [python, *map(str, arguments)]
    done = subprocess.run(
        command, env=oracle_environment(), capture_output=True, check=False, **options
    )
    assert done.returncode == 0 or not check, (
        f"{command} ended with {done.returncode}:\n{done.stderr[-4000:]!r}"
    )
    return done


def corpus_names(pattern: str, suffix: str) -> list[str]:
    """Names of the corpus files that ``pattern`` finds, without ``suffix``; ``NONE`` where there is no corpus."""
    directory = corpus_directory()
    found = (
        sorted(path.name.removesuffix(suffix) for path in directory.glob(pattern))
        if directory
        else []
    )
    return found or [NONE]


def corpus_stems(wanted: Callable[[dict[str, Any]], bool] = lambda meta: True) -> list[str]:
    """The graphs whose recorded answers are ``wanted``."""
    directory = corpus_directory()
    if directory is None:
        return [NONE]
    return [
        stem for stem in corpus_names("graphs/*.json", ".json") if wanted(recorded(directory, stem))
    ] or [NONE]


@cache
def recorded(directory: Path, stem: str) -> dict[str, Any]:
    """What is on record about a graph of the corpus."""
    meta: dict[str, Any] = json.loads((directory / "oracle" / f"{stem}.meta.json").read_text())
    return meta
