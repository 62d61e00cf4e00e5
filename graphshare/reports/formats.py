"""The report formats by name, and the default format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module

from graphshare.reports.model import FindingsReport

#: Name of a format to the module whose ``render`` writes it.
FORMATS: Mapping[str, str] = {
    "text": "graphshare.reports.text",
    "json": "graphshare.reports.as_json",
    "github": "graphshare.reports.github",
    "junit": "graphshare.reports.junit",
    "sarif": "graphshare.reports.sarif",
}


def render(report: FindingsReport, format_: str) -> str:
    """Return ``report`` in the format called ``format_`` (a key of :data:`FORMATS`), ending in a line break."""
    text: str = import_module(FORMATS[format_]).render(report)
    return text


def default_format(environment: Mapping[str, str] = os.environ) -> str:
    """Return ``github`` inside GitHub Actions, ``text`` elsewhere."""
    return "github" if environment.get("GITHUB_ACTIONS") == "true" else "text"
