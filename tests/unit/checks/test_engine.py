"""A run of rules: selection, suppression in the file, and the place and the excerpt of each finding."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from graphshare.checks.config import read_config
from graphshare.checks.document import BOM
from graphshare.checks.engine import run_rules, select_codes
from graphshare.checks.rule import (
    DENSE_RECORDS,
    Example,
    ExampleRecord,
    batch_norm,
    dense,
    operator,
    symbol,
    variable,
)
from graphshare.errors import InputError, UsageError
from graphshare.reports.model import Finding
from tests.unit.checks.examples import read_context


def run(example: Example | str | bytes, folder: Path) -> tuple[list[Finding], int]:
    return run_rules(
        read_context(example if isinstance(example, Example) else Example(example), folder)
    )


def list_codes(example: Example | str | bytes, folder: Path) -> tuple[list[str], int]:
    findings, suppressed = run(example, folder)
    return [finding.code for finding in findings], suppressed


IGNORE = "__graphshare_ignore__"


def two(first: str, second: str) -> str:
    """Two operators that MXNet does not have, each with what it suppresses; none with an empty text."""
    remarks = [{IGNORE: codes} if codes else {} for codes in (first, second)]
    return symbol(
        variable("data"),
        operator("First", "a", 0, **remarks[0]),
        operator("Second", "b", 1, **remarks[1]),
    )


@pytest.mark.parametrize(
    ("first", "second", "left", "suppressed"),
    [
        ("", "", ["GS301", "GS301"], 0),
        ("GS301", "", ["GS301"], 1),
        ("", "GS3", ["GS301"], 1),
        ("*", "GS104 GS301", [], 2),
        ("GS302", "GS104,GS4", ["GS301", "GS301"], 0),
        ("GS999", "GS301", ["GS010", "GS301"], 1),
        ("GS999 GS010", "*", ["GS010", "GS301"], 1),
    ],
)
def test_an_operator_suppresses_what_is_found_at_it(
    first: str, second: str, left: list[str], suppressed: int, tmp_path: Path
) -> None:
    assert list_codes(two(first, second), tmp_path) == (left, suppressed)


def test_a_node_suppresses_what_is_found_inside_of_it(tmp_path: Path) -> None:
    """Also places that have no node of their own, such as a key of the file."""
    text = dense().replace('"name": "fc"', '"name": "fc", "remark_of_mine": 1')
    assert list_codes(text, tmp_path) == (["GS006"], 0)
    for name, left in (("fc", []), ("fc_bias", ["GS006"])):
        quoted = f'"name": "{name}", '
        added = text.replace(quoted, f'{quoted}"attrs": {{"{IGNORE}": "GS006"}}, ')
        if name == "fc":
            added = text.replace('"num_hidden"', f'"{IGNORE}": "GS006", "num_hidden"')
        assert list_codes(added, tmp_path) == (left, 1 - len(left))
    key = (
        dense()
        .replace('"heads"', '"head": 1, "heads"')
        .replace('"num_hidden"', f'"{IGNORE}": "*", "num_hidden"')
    )
    assert list_codes(key, tmp_path) == (["GS006"], 0)


@pytest.mark.parametrize(("name", "left"), [("fc_bias", []), ("fc_weight", ["GS406"])])
def test_a_variable_suppresses_what_is_found_in_its_record(
    name: str, left: list[str], tmp_path: Path
) -> None:
    records = (DENSE_RECORDS[0], ExampleRecord("arg:fc_bias", (3,)))
    attrs = json.dumps({IGNORE: "GS406"})
    text = dense().replace(f'"name": "{name}"', f'"name": "{name}", "attrs": {attrs}')
    codes, suppressed = list_codes(Example(text, records), tmp_path)
    assert [code for code in codes if code == "GS406"] == left
    assert suppressed == 1 - len(left)


def test_a_file_that_is_no_graph_suppresses_nothing(tmp_path: Path) -> None:
    text = dense().replace('"num_hidden": "2"', f'"{IGNORE}": "*", "num_hidden": 2')
    assert list_codes(text, tmp_path) == (["GS002"], 0)


def test_findings_of_the_graph_come_before_those_of_the_parameters(tmp_path: Path) -> None:
    records = (
        ExampleRecord("arg:bn_gamma", (3,), value=float("nan")),
        ExampleRecord("arg:zzz", (3,)),
    )
    found, _ = run(
        Example(batch_norm().replace('"eps": "0.001"', '"eps": "x", "odd": "1"'), records), tmp_path
    )
    assert [finding.code for finding in found] == [
        "GS402",
        "GS402",
        "GS402",
        "GS304",
        "GS303",
        "GS403",
        "GS408",
    ]
    assert [finding.where.endswith(".params") for finding in found] == [False] * 5 + [True] * 2


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_an_excerpt_is_the_line_of_the_finding(ending: str, tmp_path: Path) -> None:
    text = (
        dense()
        .replace('"no_bias"', '"no_bais"')
        .replace('"num_hidden": "2"', '"num_hidden": "2.0"')
        .replace("\n", ending)
    )
    (finding,), _ = run(text.encode(), tmp_path)
    line = text.split(ending)[4]
    assert (finding.line, finding.column) == (5, line.index('"2.0"') + 1)
    first = max(2, finding.column - 1 - 50)
    assert finding.excerpt == line[first : first + 100].rstrip()
    assert finding.excerpt[finding.excerpt_column - 1 :].startswith('"2.0"')


@pytest.mark.parametrize("length", [60, 61, 62, 200])
def test_a_long_line_is_cut_around_the_place(length: int, tmp_path: Path) -> None:
    """Without the two blanks before it, the line of the name has 39 characters more than the name."""
    text = symbol(variable("data"), operator("Mine", "a" * length, 0))
    (finding,), _ = run(text, tmp_path)
    line = text.split("\n")[2].strip()
    assert finding.excerpt == line[:100].rstrip()
    assert finding.excerpt_column == 1


@pytest.mark.parametrize(("length", "is_cut"), [(99, False), (100, False), (101, True)])
def test_a_line_is_cut_where_it_is_longer_than_an_excerpt(
    length: int, is_cut: bool, tmp_path: Path
) -> None:
    text = symbol(variable("data"), operator("Pooling", "a", 0, kernel="(2, 2)", odd="1"))
    missing = length + 2 - len(text.split("\n")[2])
    text = text.replace('"a"', f'"{"a" * (1 + missing)}"')
    (finding,) = run(text, tmp_path)[0]
    line = text.split("\n")[2]
    assert (len(line), finding.column > 53) == (length + 2, True)
    assert finding.excerpt == (line[finding.column - 51 :] if is_cut else line[2:])


def test_characters_that_no_terminal_shows_are_blanks(tmp_path: Path) -> None:
    (finding,), _ = run(
        dense().replace("fc_bias", "\u200bb\u0085_bias").replace("[2, 0, 0]", "[9, 0, 0]"), tmp_path
    )
    assert finding.excerpt.isprintable()
    text = dense().replace('"name": "fc_bias"', '"name": "\u200bx_bias", "odd": 1')
    (finding,) = [finding for finding in run(text, tmp_path)[0] if finding.code == "GS006"]
    assert '" x_bias"' in finding.excerpt


def test_a_byte_order_mark_counts_as_a_column_of_the_first_line(tmp_path: Path) -> None:
    text = (
        dense()
        .replace('"nodes": [\n  ', '"head": 1, "nodes": [\n  ')
        .replace('"heads"', '"head2": 1, "heads"')
    )
    columns = {}
    for mark in (b"", BOM):
        found = run(mark + text.encode(), tmp_path)[0]
        columns[mark] = {
            finding.code + finding.path: (finding.line, finding.column) for finding in found
        }
    assert columns[BOM].pop("GS003") == (1, 1)
    (line, column), last = columns[b""]["GS006$.head"], columns[b""]["GS006$.head2"]
    assert line == 1
    assert columns[BOM] == {"GS006$.head": (1, column + 1), "GS006$.head2": last}


@pytest.mark.parametrize(
    ("text", "hint"), [("GS40x", "did you mean 'GS4"), ("zzzzzz", "see `report.rules`")]
)
def test_a_wrong_selection_says_what_there_is(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        select_codes([text])
    assert caught.value.faults[0].message == f"there is no rule {text!r}"
    assert caught.value.faults[0].hint.startswith(hint)
    assert select_codes(["ALL"], ["GS"]) == frozenset()


def test_a_configuration_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file or directory") as caught:
        read_config(str(tmp_path / "none.toml"))
    assert caught.value.faults[0].where == str(tmp_path / "none.toml")


def test_a_compressed_record_that_is_damaged_is_found(tmp_path: Path) -> None:
    (tmp_path / "a-symbol.json").write_text(dense())
    arrays = {
        "arg:fc_weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "arg:fc_bias": np.full(50_000, np.nan, np.float32),
    }
    np.savez_compressed(tmp_path / "a-0000.npz", **arrays)
    content = bytearray((tmp_path / "a-0000.npz").read_bytes())

    def find(data: bytes) -> list[tuple[str, str | None]]:
        (tmp_path / "a-0000.npz").write_bytes(data)
        report = gs.check(
            tmp_path / "a-symbol.json", params=tmp_path / "a-0000.npz", select=["GS408", "GS410"]
        )
        return [(finding.code, finding.path) for finding in report.findings]

    assert [code for code, _ in find(bytes(content))] == ["GS408"]
    content[content.rindex(b"PK\x01\x02") + 16] ^= 1  # the checksum of the second array
    # A record that cannot be decoded is reported once, and the others are still looked at.
    (finding,) = find(bytes(content))
    assert finding[0] == "GS410"
    assert "arg:fc_bias" in str(finding[1])
