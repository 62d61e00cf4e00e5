"""Every rule speaks of its failing example and is silent on its passing one; so is every rule of a
level on the other's.
"""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import graphshare.checks.rules
from graphshare.checks.engine import RULES, run_rules, select_codes
from graphshare.checks.rule import Violation, field, operator, symbol, variable
from graphshare.errors import Fault, UsageError
from graphshare.reports.model import Level
from tests.unit.checks.examples import read_context

CODES = sorted(RULES)


@pytest.mark.parametrize("code", CODES)
def test_a_rule_reports_its_failing_example(code: str, tmp_path: Path) -> None:
    findings, _ = run_rules(read_context(RULES[code].fails, tmp_path))
    mine = [finding for finding in findings if finding.code == code]
    assert mine
    if code == "GS611" and find_spec("onnx") is None:  # a note says that it did not run
        return
    for finding in mine:
        assert finding.level is RULES[code].level
        assert finding.message
        assert not finding.message.endswith(".")
        assert finding.path or finding.line or finding.where.endswith(".params") or code == "GS008"


@pytest.mark.parametrize("code", CODES)
def test_a_failing_example_has_no_worse_finding(code: str, tmp_path: Path) -> None:
    """An example shows one thing: where a warning is meant, no error hides it."""
    findings, _ = run_rules(read_context(RULES[code].fails, tmp_path))
    expected = {"GS206": {"GS201"}}.get(code, set())  # what was meant as one has one name
    if RULES[code].level is not Level.ERROR:
        findings = [finding for finding in findings if finding.code not in expected]
        assert [finding for finding in findings if finding.level is Level.ERROR] == []


@pytest.mark.parametrize("code", CODES)
def test_a_rule_is_silent_on_its_passing_example(code: str, tmp_path: Path) -> None:
    findings, _ = run_rules(read_context(RULES[code].passes, tmp_path))
    assert [
        finding for finding in findings if finding.code == code or finding.level is Level.ERROR
    ] == []


@pytest.mark.parametrize("code", CODES)
def test_a_rule_has_a_code_a_name_and_a_reason(code: str) -> None:
    rule = RULES[code]
    assert re.fullmatch(r"GS\d{3}", code)
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
    assert not rule.summary.endswith(".")
    assert rule.why.endswith(".")
    assert "\n" not in rule.summary + rule.why


def test_the_notation_of_examples_has_three_numbers_for_an_entry() -> None:
    graph = json.loads(symbol(variable("x"), operator("split", "a", 0, (0, 1)), heads=[1, (1, 1)]))
    assert graph["nodes"][1]["inputs"] == [[0, 0, 0], [0, 1, 0]]
    assert graph["heads"] == [[1, 0, 0], [1, 1, 0]]


@pytest.mark.parametrize(
    ("content", "data"),
    [
        (0, b"\x08\0"),
        (127, b"\x08\x7f"),
        (128, b"\x08\x80\x01"),
        (16_383, b"\x08\xff\x7f"),
        ("ä", b"\x0a\x02\xc3\xa4"),
    ],
)
def test_the_notation_of_examples_has_numbers_of_one_or_two_bytes(
    content: int | str, data: bytes
) -> None:
    assert field(1, content) == data
    assert field(16, content) == bytes([data[0] + 0x78, 0x01]) + data[1:]


def test_a_rule_describes_itself_and_its_fix() -> None:
    for rule in RULES.values():
        assert rule.info.help == f"{rule.summary}. {rule.why}" + (
            f" --fix {rule.fix}." if rule.fix else ""
        )
        assert rule.info.fixable is bool(rule.fix)


def test_a_fault_of_a_reader_is_a_violation_at_its_place() -> None:
    found = Violation.of_fault(
        Fault("is wrong", path="$.nodes[3].attrs", node="fc", hint="drop it")
    )
    assert (found.message, found.steps, found.name, found.hint) == (
        "is wrong",
        ("nodes", 3, "attrs"),
        "fc",
        "drop it",
    )
    assert Violation.of_fault(Fault("is wrong", path="line 3 column 1")).steps == ()


def test_every_rule_file_is_a_rule_of_its_name() -> None:
    folder = Path(graphshare.checks.rules.__file__).parent
    modules = {
        path.stem[:5].upper(): path.stem[6:].replace("_", "-") for path in folder.glob("gs*.py")
    }
    assert modules == {code: rule.name for code, rule in RULES.items()}
    assert len({rule.name for rule in RULES.values()}) == len(RULES)


def test_rules_are_selected_by_code_beginning_and_name() -> None:
    assert select_codes() == frozenset(RULES)
    assert select_codes(["GS4"], ["GS401", "missing-parameter"]) == {
        c for c in RULES if c[2] == "4"
    } - {"GS401", "GS402"}
    with pytest.raises(UsageError, match="GS999"):
        select_codes(["GS999"])
    with pytest.raises(UsageError, match="there is no rule 'nothing'"):
        select_codes([], ["nothing"])
