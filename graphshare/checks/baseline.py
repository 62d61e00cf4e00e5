"""Baselines: known findings, so that a run reports only new ones.

Code, file, node and message identify a finding, so its line may change; equal findings are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from graphshare.errors import Fault, InputError
from graphshare.files.open_source import read_file
from graphshare.files.paths import relative_path, split
from graphshare.files.schema import find_violations
from graphshare.reports.model import Finding
from graphshare.text.format import escape_surrogates

Key = tuple[str, str, str | None, str]


def format_baseline(findings: Iterable[Finding], path: str) -> str:
    """Return the text of a baseline file."""
    counts = Counter(_key(finding, path) for finding in findings)
    items = [
        {"code": code, "file": file, "node": node, "message": message, "count": count}
        for (code, file, node, message), count in sorted(
            counts.items(), key=lambda item: tuple(map(str, item[0]))
        )
    ]
    encoded = msgspec.json.encode({"version": 1, "findings": items})
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def read_baseline(path: str) -> Counter[Key]:
    """Read the known findings and their counts.

    Raises:
        InputError: the file cannot be read or is not a baseline; every fault is listed.
    """
    try:
        document: Any = msgspec.json.decode(read_file(path))
    except OSError as error:
        hint = "write one with `graphshare check --write-baseline FILE`"
        raise InputError(
            Fault(f"cannot be read: {error.strerror or error}", where=path, hint=hint)
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(Fault(f"is not a baseline: {error}", where=path)) from None
    faults = find_violations(document, "check-baseline")
    if faults:
        raise InputError(faults).with_location(path)
    known: Counter[Key] = Counter()
    for item in document["findings"]:
        known[item["code"], item["file"], item["node"], item["message"]] += item["count"]
    return known


def drop_known(
    findings: Iterable[Finding], known: Counter[Key], path: str
) -> tuple[list[Finding], int]:
    """Return new findings, and the number of known ones."""
    remaining = Counter(known)
    fresh = []
    count = 0
    for finding in findings:
        key = _key(finding, path)
        if remaining[key] > 0:
            remaining[key] -= 1
            count += 1
        else:
            fresh.append(finding)
    return fresh, count


def _key(finding: Finding, path: str) -> Key:
    # Relative to the baseline, so that it is valid in any checkout.
    file = relative_path(finding.where, split(path)[0])
    node = None if finding.node is None else escape_surrogates(finding.node)
    return finding.code, escape_surrogates(file), node, escape_surrogates(finding.message)
