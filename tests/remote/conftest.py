"""Fixtures of the tests of URLs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from graphshare.files.remote import retries
from tests.remote.web_server import WebServer, serve


@pytest.fixture
def site(tmp_path: Path) -> Iterator[WebServer]:
    """A web server with ranges for the files in ``tmp_path``."""
    with serve(tmp_path) as site:
        yield site


@pytest.fixture(autouse=True)
def _no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat requests at once."""
    monkeypatch.setattr(retries, "DELAYS", (0.0, 0.0, 0.0))
