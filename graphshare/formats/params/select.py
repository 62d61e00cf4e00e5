"""``--select``: the records of a parameter file that patterns match."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from graphshare.errors import Fault, RefusedError
from graphshare.formats.params.records import ParameterFile
from graphshare.text.names import split_key, suggest
from graphshare.text.patterns import compile_pattern


def select_keys(
    file: ParameterFile, patterns: Sequence[str], *, others: Collection[str] = (), option: str = "`select`"
) -> set[str]:
    """Return the keys that any of ``patterns`` matches, with or without ``arg:`` or ``aux:``; without patterns all.

    ``others`` are keys of another file, in which a pattern may find its match instead. ``option`` gave the patterns.

    Raises:
        RefusedError: a pattern matches nothing; all such are listed.
        UsageError: a pattern is malformed.
    """
    keys = [record.key for record in file.records if record.key is not None]
    if not patterns:
        return set(keys)
    selected: set[str] = set()
    faults = []
    for pattern in patterns:
        matches = compile_pattern(pattern)
        hits = {key for key in keys if matches(key) or matches(split_key(key)[1])}
        if not hits and not any(matches(key) or matches(split_key(key)[1]) for key in others):
            near = suggest(pattern, [split_key(key)[1] for key in keys], "parameters")
            faults.append(Fault(f"{option} {pattern!r} matches no parameter", where=file.path, hint=near))
        selected |= hits
    if faults:
        raise RefusedError(faults)
    return selected
