"""A baseline: findings that are known, so that a run reports what is new.

A finding is known by its code, file, node and message, and as often as it was found; not by its line, which moves.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.formats.schema import explain
from graphshare.reports.model import Finding
from graphshare.text.format import escape_surrogates

Key = tuple[str, str, str | None, str]


def baseline_text(findings: Iterable[Finding], path: str) -> str:
    """The baseline file, to lie at ``path``, that holds ``findings``."""
    counts = Counter(_key(finding, path) for finding in findings)
    items = [
        {"code": code, "file": file, "node": node, "message": message, "count": count}
        for (code, file, node, message), count in sorted(counts.items(), key=lambda item: tuple(map(str, item[0])))
    ]
    encoded = msgspec.json.encode({"version": 1, "findings": items})
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def read_baseline(path: str) -> Counter[Key]:
    """What the baseline at ``path`` knows, with how often.

    Raises:
        InputError: it cannot be read or is no baseline; every fault is listed.
    """
    try:
        with open(path, "rb") as file:
            found: Any = msgspec.json.decode(file.read())
    except OSError as error:
        hint = "write one with --write-baseline"
        raise InputError(Fault(f"cannot be read: {error.strerror or error}", where=path, hint=hint)) from error
    except (ValueError, RecursionError) as error:
        raise InputError(Fault(f"is no baseline: {error}", where=path)) from None
    faults = explain(found, "check-baseline")
    if faults:
        raise InputError(faults).with_location(path)
    known: Counter[Key] = Counter()
    for item in found["findings"]:
        known[item["code"], item["file"], item["node"], item["message"]] += item["count"]
    return known


def without_known(findings: Iterable[Finding], known: Counter[Key], path: str) -> tuple[list[Finding], int]:
    """The findings that the baseline at ``path`` does not hold, and how many it holds."""
    left = Counter(known)
    fresh = []
    count = 0
    for finding in findings:
        key = _key(finding, path)
        if left[key] > 0:
            left[key] -= 1
            count += 1
        else:
            fresh.append(finding)
    return fresh, count


def _key(finding: Finding, path: str) -> Key:
    folder = os.path.dirname(os.path.abspath(path))
    file = os.path.relpath(os.path.abspath(finding.where), folder).replace(os.sep, "/")
    node = None if finding.node is None else escape_surrogates(finding.node)
    return finding.code, escape_surrogates(file), node, escape_surrogates(finding.message)
