"""The table of ONNX's operators is what the installed onnx says, as far as both know the versions."""

from __future__ import annotations

import json
from typing import Any

from onnx import defs

from tests.onnx_files.operator_table import BREAKS, TABLE, encode_table, make_table


def cut(table: dict[str, list[list[Any]]], known: int) -> dict[str, list[list[Any]]]:
    """Return the ranges that begin no later than a version."""
    cuts = {name: [each for each in ranges if each[0] <= known] for name, ranges in table.items()}
    return {name: ranges for name, ranges in cuts.items() if ranges}


def test_the_table_is_that_of_the_installed_onnx() -> None:
    """An older onnx lacks attributes that later versions of a range added; what it has is the same."""
    text = TABLE.read_text()
    stored, fresh = json.loads(text), make_table()
    newest = max(
        schema.since_version for schema in defs.get_all_schemas_with_history() if not schema.domain
    )
    table, versions = (
        cut(stored, newest),
        [first for ranges in stored.values() for first, _ in ranges],
    )
    assert list(table) == list(fresh)
    for name, ranges in fresh.items():
        assert [first for first, _ in table[name]] == [first for first, _ in ranges], name
        for (_, defaults), (_, more) in zip(ranges, table[name], strict=True):
            assert defaults.items() <= more.items(), name
    if newest >= max(versions):
        assert encode_table(fresh) == text, "run python -m tests.onnx_files.operator_table"


def test_breaks_are_in_the_table() -> None:
    table = json.loads(TABLE.read_text())
    for name, version in BREAKS:
        assert (
            version in [first for first, _ in table[name]] or defs.onnx_opset_version() < version
        ), name
