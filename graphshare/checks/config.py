"""Options of ``check``, and its configuration from ``graphshare.toml`` or ``pyproject.toml``.

The nearest file at or above the working directory is read. Its globs and paths are relative to its
folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from graphshare.checks.engine import select_codes
from graphshare.errors import Fault, InputError, UsageError
from graphshare.files.open_source import read_file
from graphshare.files.paths import relative_path
from graphshare.files.schema import find_violations
from graphshare.files.toml import read_toml

_OWN_FILE, _SHARED_FILE = "graphshare.toml", "pyproject.toml"


class CheckConfig(msgspec.Struct, frozen=True):
    """A configuration: its file ``where`` and the file's ``folder``, both empty without a file."""

    where: str = ""
    folder: str = ""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    strict: bool = False
    baseline: str = ""
    per_path_ignore: Mapping[str, tuple[str, ...]] = {}

    def list_ignored_codes(self, path: str) -> tuple[str, ...]:
        relative = relative_path(path, self.folder)
        name = os.path.basename(relative)
        ignored: list[str] = []
        for glob, codes in self.per_path_ignore.items():
            if fnmatchcase(relative, glob) or fnmatchcase(name, glob):
                ignored += codes
        return tuple(ignored)


class CheckOptions(msgspec.Struct, frozen=True):
    """The options for all files.

    On the command line, ``select`` replaces the configuration's, and ``ignore`` adds to it.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    config: CheckConfig = CheckConfig()
    shapes: Mapping[str, tuple[int | None, ...]] = {}

    def codes_for(self, path: str) -> frozenset[str]:
        """Return the codes for a file. Raises UsageError for codes that belong to no rule."""
        ignored = (*self.ignore, *self.config.ignore, *self.config.list_ignored_codes(path))
        return select_codes(self.select or self.config.select, ignored)


def find_config(start: str = ".") -> CheckConfig:
    """Read the nearest configuration at ``start`` or above, if any. Raises as :func:`read_config`."""
    folder = os.path.abspath(start)
    while True:
        own = os.path.join(folder, _OWN_FILE)
        if os.path.isfile(own):
            return read_config(own)
        shared = os.path.join(folder, _SHARED_FILE)
        # A pyproject.toml without our table is not parsed: Python before 3.11 has no reader, and
        # checking it is not our task.
        if os.path.isfile(shared) and b"[tool.graphshare" in _read_bytes(shared):
            return read_config(shared)
        above = os.path.dirname(folder)
        if above == folder:
            return CheckConfig()
        folder = above


def read_config(path: str) -> CheckConfig:
    """Read a configuration file.

    Raises:
        InputError: the file cannot be read or is not valid; every fault is listed.
    """
    table: Any = read_toml(_read_bytes(path), where=path)
    prefix = "$"
    for key in ("tool", "graphshare") if os.path.basename(path) == _SHARED_FILE else ():
        table = table.get(key, {}) if isinstance(table, dict) else {}
        prefix += f".{key}"
    others = dict(table) if isinstance(table, dict) else {}
    table = others.pop("check", {}) if isinstance(table, dict) else table
    hint = f"settings stand in the table [{prefix}.check]".replace("$.", "")
    faults: list[Fault] = []
    for key, value in others.items():
        message = "is a setting outside the table of check"
        if isinstance(value, dict):
            message = "is a table that graphshare does not know"
        faults.append(Fault(message, where=path, path=f"{prefix}.{key}", hint=hint))
    faults += [
        Fault(
            fault.message,
            where=path,
            path=fault.path.replace("$", f"{prefix}.check", 1),
            hint=fault.hint,
        )
        for fault in find_violations(table, "check-config")
    ]
    if faults:
        raise InputError(faults)
    folder = os.path.dirname(os.path.abspath(path))
    ignores = {glob: tuple(codes) for glob, codes in table.get("per-path-ignore", {}).items()}
    baseline = os.path.join(folder, table["baseline"]) if table.get("baseline") else ""
    config = CheckConfig(
        path,
        folder,
        tuple(table.get("select", ())),
        tuple(table.get("ignore", ())),
        table.get("strict", False),
        os.path.relpath(baseline) if baseline else "",
        ignores,
    )
    _check_codes(config)
    return config


def _check_codes(config: CheckConfig) -> None:
    try:
        select_codes(
            config.select,
            (
                *config.ignore,
                *(code for codes in config.per_path_ignore.values() for code in codes),
            ),
        )
    except UsageError as error:
        raise InputError(error.faults).with_location(config.where) from None


def _read_bytes(path: str) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        hint = "name a TOML file with the settings of check"
        raise InputError(
            Fault(f"cannot be read: {error.strerror or error}", where=path, hint=hint)
        ) from error
