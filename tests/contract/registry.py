"""The line of the toy format in the registry, also in the worker processes of ``foreach``."""

from __future__ import annotations

from graphshare.cli import fleet
from graphshare.formats.model_names import FORMAT_NAMES, FormatNames

NAMES = FormatNames("tests.contract.toy_format", ".toy", ".toy", ".npz")


def prepare_worker() -> None:
    """Register the format in a worker, which has the registry of the source, and prepare it as ``foreach`` does."""
    FORMAT_NAMES["toy"] = NAMES
    fleet.prepare_worker()
