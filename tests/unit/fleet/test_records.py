"""The reason of a result, as the report of its command states it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from graphshare.fleet.records import Result


def finding(level: str, message: str) -> dict[str, str]:
    return {"level": level, "message": message}


ERRORS = [finding("error", name) for name in "abcd"]


@pytest.mark.parametrize(
    ("report", "error", "reason"),
    [
        (None, "", ""),
        ([1], "", ""),
        ({"verdict": "NOT EQUAL: y"}, "", "NOT EQUAL: y"),
        ({"verdict": "NOT EQUAL: y", "findings": ERRORS[:1]}, "", "NOT EQUAL: y"),
        ({"findings": ERRORS[:1]}, "no space", "no space"),
        ({"findings": [finding("warning", "w"), ERRORS[0]]}, "", "a"),
        ({"findings": [finding("warning", "v"), finding("warning", "w")]}, "", "v; w"),
        ({"findings": ERRORS[:3]}, "", "a; b; c"),
        ({"findings": ERRORS}, "", "a; b; c; and 1 more"),
    ],
)
def test_the_reason_is_the_error_the_verdict_or_the_first_findings(
    report: Any, error: str, reason: str
) -> None:
    raw = msgspec.Raw(json.dumps(report).encode())
    result = Result(source="a.json", command=("x",), result="no", error=error, report=raw)
    assert result.reason == reason
    assert result.verdict == ((report or {}).get("verdict", "") if isinstance(report, dict) else "")
