"""Counts with nouns: one of a thing is never called several."""

from __future__ import annotations

import ast
import itertools
import re

import pytest

from graphshare.text.format import format_count, pluralize, singularize
from tests.processes import ROOT


@pytest.mark.parametrize(
    ("noun", "plural"),
    [("node", "nodes"), ("axis", "axes"), ("index", "indices"), ("branch", "branches"), ("box", "boxes"), ("class", "classes"),
     ("infinity", "infinities"), ("key", "keys"), ("pair of nodes", "pairs of nodes"), ("spatial axis", "spatial axes"),
     ("parameter file", "parameter files"), ("tie", "ties")],
)  # fmt: skip
def test_plurals(noun: str, plural: str) -> None:
    assert (pluralize(noun), singularize(plural)) == (plural, noun) or " of " in noun
    assert [format_count(count, noun) for count in (0, 1, 2)] == [
        f"0 {plural}",
        f"1 {noun}",
        f"2 {plural}",
    ]


def test_what_is_not_a_plural_stays() -> None:
    assert [singularize(word) for word in ("shape", "added", "")] == ["shape", "added", ""]


def test_numbers() -> None:
    assert [format_count(1000), format_count(10**31, "byte")] == ["1,000", "more than 10^30 bytes"]


_COUNTED = re.compile(
    r"^ (?:array|axe|branche|byte|channel|difference|element|input|name|node|operator|output|parameter|row|variable)s\b"
)


def test_no_count_stands_before_a_fixed_plural() -> None:
    """An f-string with ``{len(...)} nodes`` says ``1 nodes``: :func:`format_count` knows better."""
    places = []
    for path in sorted((ROOT / "graphshare").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if re.search(r"\{\s*len\(", source) else ():
            parts = node.values if isinstance(node, ast.JoinedStr) else []
            for value, text in itertools.pairwise(parts):
                is_length = (
                    isinstance(value, ast.FormattedValue)
                    and isinstance(value.value, ast.Call)
                    and getattr(value.value.func, "id", "") == "len"
                )
                if is_length and isinstance(text, ast.Constant) and _COUNTED.match(str(text.value)):
                    places.append(f"{path.relative_to(ROOT)}:{value.lineno}: {text.value}")
    assert (
        places
        == [
            # more than one by the condition above it
        ]
    )
