"""The names of a checkpoint's files, as MXNet's ``save_checkpoint`` gives them: ``STEM-symbol.json``, ``STEM-0007.params``."""

from __future__ import annotations

import re

from graphshare.formats.paths import extend

STEM_END = "-symbol.json"
_PARAMS = re.compile(r"(.*)-(\d{4,})\.params", re.DOTALL)


def params_path(stem: str, epoch: int) -> str:
    """Return the path of a checkpoint's parameter file."""
    return extend(stem, f"-{epoch:04d}.params")


def split_params(path: str) -> tuple[str, int] | None:
    """Return the stem and the epoch of a checkpoint's parameter file; None for a path of another form."""
    match = _PARAMS.fullmatch(path)
    return (match[1], int(match[2])) if match else None
