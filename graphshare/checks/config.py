"""Configuration of ``check``: which rules, where not, and the baseline; from ``graphshare.toml`` or ``pyproject.toml``.

The nearest file counts, looked for from the working directory upwards. Globs and paths in it are relative to its folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from graphshare.checks.registry import selected
from graphshare.errors import Fault, InputError, UsageError
from graphshare.formats.schema import explain
from graphshare.formats.toml import read_toml

_OWN, _SHARED = "graphshare.toml", "pyproject.toml"


class Config(msgspec.Struct, frozen=True):
    """What the configuration says. ``folder`` is where it lies; ``where`` names the file, empty without one."""

    where: str = ""
    folder: str = ""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    strict: bool = False
    baseline: str = ""
    per_path_ignore: Mapping[str, tuple[str, ...]] = {}

    def ignored_at(self, path: str) -> tuple[str, ...]:
        """The codes that are ignored for the file at ``path``."""
        relative = os.path.relpath(os.path.abspath(path), self.folder or ".").replace(os.sep, "/")
        found = (
            codes
            for glob, codes in self.per_path_ignore.items()
            if fnmatchcase(relative, glob) or fnmatchcase(os.path.basename(relative), glob)
        )
        return tuple(code for codes in found for code in codes)


def find_config(start: str = ".") -> Config:
    """The nearest configuration at ``start`` or above; an empty one where there is none. Raises as :func:`read_config`."""
    folder = os.path.abspath(start)
    while True:
        own = os.path.join(folder, _OWN)
        if os.path.isfile(own):
            return read_config(own)
        shared = os.path.join(folder, _SHARED)
        if os.path.isfile(shared) and b"[tool.graphshare" in _bytes(shared):
            return read_config(shared)
        above = os.path.dirname(folder)
        if above == folder:
            return Config()
        folder = above


def read_config(path: str) -> Config:
    """The configuration in the file at ``path``.

    Raises:
        InputError: it cannot be read, or holds what means nothing; every fault is listed.
    """
    table: Any = read_toml(_bytes(path), where=path)
    prefix = "$"
    for key in ("tool", "graphshare", "check") if os.path.basename(path) == _SHARED else ("check",):
        table = table.get(key, {}) if isinstance(table, dict) else {}
        prefix += f".{key}"
    faults = [
        Fault(fault.message, where=path, path=fault.path.replace("$", prefix, 1), hint=fault.hint)
        for fault in explain(table, "check-config")
    ]
    if faults:
        raise InputError(faults)
    folder = os.path.dirname(os.path.abspath(path))
    ignores = {glob: tuple(codes) for glob, codes in table.get("per-path-ignore", {}).items()}
    baseline = os.path.join(folder, table["baseline"]) if table.get("baseline") else ""
    found = Config(
        path,
        folder,
        tuple(table.get("select", ())),
        tuple(table.get("ignore", ())),
        table.get("strict", False),
        os.path.relpath(baseline) if baseline else "",
        ignores,
    )
    _check_codes(found)
    return found


def _check_codes(config: Config) -> None:
    try:
        selected(config.select, (*config.ignore, *(code for codes in config.per_path_ignore.values() for code in codes)))
    except UsageError as error:
        raise InputError(error.faults).with_location(config.where) from None


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror or error}", where=path)) from error
