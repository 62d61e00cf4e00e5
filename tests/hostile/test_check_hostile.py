"""``check`` answers whatever it is given: findings, never a traceback, a hang or much memory."""

from __future__ import annotations

import json
from random import Random

import pytest

from graphshare.checks.context import CheckContext
from graphshare.checks.engine import RULES, run_rules
from graphshare.reports.formats import FORMATS, render
from graphshare.reports.model import FindingsReport, Level
from tests.surroundings import size_of_day
from tests.symbols import document, mxnet_text, operator, siamese, two_layers, variable


def codes(data: bytes) -> set[str]:
    found, _ = run_rules(CheckContext("a.json", data))
    for format_ in FORMATS:
        render(FindingsReport(command="check", files=("a.json",), findings=tuple(found)), format_)
    return {finding.code for finding in found}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "GS001"),
        (b"\xff\xfe{}", "GS001"),
        (b"\xef\xbb\xbf", "GS001"),
        (b"[" * 200_000, "GS001"),
        (b'{"a":' * 100_000, "GS001"),
        (b'{"nodes": ' + b"[" * 5_000 + b"]" * 5_000 + b', "arg_nodes": [], "heads": []}', "GS00"),
        (b'{"nodes": [], "arg_nodes": [], "heads": [], "x": ' + b"9" * 6_000 + b"}", "GS00"),
        (b'{"nodes": [], "arg_nodes": [], "heads": [], "x": NaN}', "GS001"),
        (b'{"nodes": [], "arg_nodes": [], "heads": [], "x": 1e999}', "GS00"),
        (b"null", "GS002"),
        (b'{"nodes": [{}], "nodes": 3}', "GS005"),
        (mxnet_text(siamese()).replace("conv_weight", "\\ud800").encode(), "GS00"),
        (mxnet_text(siamese()).replace("conv_weight", "a\\u0000").encode(), "GS009"),
    ],
)
def test_what_is_no_graph_is_a_finding(data: bytes, expected: str) -> None:
    assert any(code.startswith(expected) for code in codes(data))


def test_an_escaped_backslash_is_no_escape() -> None:
    assert (
        codes(mxnet_text(siamese()).replace("conv_weight", "a\\\\u0000_weight").encode()) == set()
    )


@pytest.mark.parametrize("seed", range(60))
def test_values_of_any_type_anywhere(seed: int) -> None:
    """A document in which one value became another, of whatever type."""
    rng = Random(seed)
    found = two_layers()
    holder: object = found
    while True:
        key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))  # type: ignore[arg-type]
        inner = holder[key]  # type: ignore[index]
        if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.2:
            break
        holder = inner
    holder[key] = rng.choice([None, -1, 1 << 70, 1.5, "", "x", [], {}, [[]], {"a": 1}, True])  # type: ignore[index]
    codes(json.dumps(found).encode())


def test_a_huge_attribute_makes_no_list() -> None:
    nodes = [variable("data"), operator("Concat", "c", [0], attrs={"num_args": "1000000000"})]
    assert "GS306" in codes(mxnet_text(document(nodes, [1])).encode())


def test_a_large_graph_is_checked_in_time() -> None:
    count = size_of_day(15_000, 50_000)
    nodes = [variable("data"), *(operator("relu", f"r{i}", [i]) for i in range(count))]
    assert codes(mxnet_text(document(nodes, [count])).encode()) == set()


def test_every_rule_can_be_an_error_in_a_report() -> None:
    assert {rule.level for rule in RULES.values()} == set(Level)
