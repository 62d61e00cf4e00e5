"""The measure of work: it tells linear from quadratic, and stops what hangs."""

from __future__ import annotations

import time

import pytest

from tests import effort


def linear(size: int) -> int:
    return sum(abs(i) for i in range(size))


def quadratic(size: int) -> int:
    return sum(linear(i) for i in range(size))


def test_growth_is_told() -> None:
    assert 3.9 < effort.grows_with(linear, 1000) < 4.1
    assert effort.grows_with(quadratic, 50) > 12


def test_what_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "HANGS", 1)
    with pytest.raises(AssertionError, match="has not ended"), effort.ends():
        time.sleep(20)
    with effort.ends():
        pass
