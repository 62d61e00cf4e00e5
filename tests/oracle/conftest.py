"""Fixtures of the tests that ask MXNet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.oracle.conversation import Oracle


@pytest.fixture(scope="session")
def oracle(oracle_python: str) -> Iterator[Oracle]:
    """One MXNet for all tests."""
    process = Oracle(oracle_python)
    yield process
    process.close()


@pytest.fixture
def fresh_oracle(oracle_python: str) -> Iterator[Oracle]:
    """An MXNet that has seen nothing: its cache mixes up int8 primitives of different nets."""
    process = Oracle(oracle_python)
    yield process
    process.close()
