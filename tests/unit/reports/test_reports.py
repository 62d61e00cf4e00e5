"""Every report format holds the same findings, in a form that its readers accept."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import msgspec
import pytest

import graphshare as gs
from graphshare.files.schema import find_violations
from graphshare.reports.formats import FORMATS, default_format, render
from graphshare.reports.model import (
    Finding,
    FindingsReport,
    Level,
    RuleInfo,
    format_path,
    parse_path,
)
from tests.processes import ROOT, done, graphshare
from tests.surroundings import missing

RULES = tuple(
    RuleInfo(f"GS{i}", f"rule-{i}", level, "what it is", "more") for i, level in enumerate(Level)
)
NASTY = "a\nb\r\"<&>',:%::error::\x00\x1b[31m\ud800é漢😀"


def report(*, nasty: bool = False) -> FindingsReport:
    message, file = (NASTY, "a,b:c d/é%.json") if nasty else ("is wrong", "a.json")
    findings = (
        Finding(code="GS0", level=Level.ERROR, message=message, where=file, path="$.nodes[3]", node=NASTY if nasty else "n",
                line=7, column=5, hint=message, excerpt='{"op": 1}', excerpt_column=2),
        Finding(code="GS1", level=Level.WARNING, message=message, where="a.params", path='record 0 "arg:w"'),
        Finding(code="GS2", level=Level.NOTE, message=message, where=file),
        Finding(code="unlisted", level=Level.ERROR, message=message, where="/tmp/absolute.json", line=1, column=1),
    )  # fmt: skip
    return FindingsReport(
        command="check",
        files=(file, "clean.json"),
        findings=findings,
        rules=RULES,
        known=2,
        tool_version="1.2.3",
    )


def empty() -> FindingsReport:
    return FindingsReport(command="check", files=("a.json",), rules=RULES, tool_version="1.2.3")


REPORTS = [report(), report(nasty=True), empty()]


@pytest.mark.parametrize("found", REPORTS)
def test_json_fits_its_schema(found: FindingsReport) -> None:
    plain = json.loads(render(found, "json"))
    assert find_violations(plain, "report") == []
    assert [item["code"] for item in plain["findings"]] == [
        finding.code for finding in found.findings
    ]
    assert plain["counts"] == {level.value: found.count(level) for level in Level}


@pytest.mark.parametrize("found", REPORTS)
def test_sarif_fits_its_schemas(found: FindingsReport) -> None:
    log = json.loads(render(found, "sarif"))
    assert find_violations(log, "sarif") == []
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == [
        finding.code for finding in found.findings
    ]
    assert [result["level"] for result in run["results"]] == [
        finding.level.value for finding in found.findings
    ]


def published(variable: str, name: str) -> Path:
    """A schema that others publish, where ``variable`` says; it is not ours to ship."""
    path = os.environ.get(variable, "")
    if not path:
        missing("schemas", f"no published schema: set {variable} to a copy of {name}")
    return Path(path)


def list_refusals(log: Any, schema: dict[str, Any]) -> list[str]:
    from jsonschema.validators import validator_for

    kind = validator_for(schema)
    return [
        error.message for error in kind(schema, format_checker=kind.FORMAT_CHECKER).iter_errors(log)
    ]


@pytest.mark.parametrize("found", REPORTS)
def test_sarif_fits_the_published_schema(found: FindingsReport) -> None:
    schema = json.loads(
        published("GRAPHSHARE_SARIF_SCHEMA", "sarif-schema-2.1.0.json").read_text(encoding="utf-8")
    )
    log = json.loads(render(found, "sarif"))
    assert list_refusals(log, schema) == []
    for damage in (lambda run: run.pop("tool"), lambda run: run.update(columnKind="bytes")):
        broken = json.loads(json.dumps(log))
        damage(broken["runs"][0])
        assert list_refusals(broken, schema)
        assert find_violations(broken, "sarif")


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("found", REPORTS)
def test_junit_counts_its_cases(found: FindingsReport, strict: bool) -> None:
    """A report has a failure exactly where the exit code says so: warnings count only where they do there."""
    found = msgspec.structs.replace(found, strict=strict)
    root = ElementTree.fromstring(render(found, "junit").encode("utf-8"))
    assert junit_faults(root) == []
    failures = (Level.ERROR, Level.WARNING) if strict else (Level.ERROR,)
    failed = [f for f in found.findings if f.level in failures]
    assert bool(failed) == found.exit_code()
    assert len(root.findall(".//failure")) == len(failed) == int(root.attrib["failures"])
    passed = [case for case in root.iter("testcase") if case.find("failure") is None]
    assert {case.attrib["classname"] for case in passed} == {
        *found.files,
        *(f.where for f in found.findings),
    } - {f.where for f in failed}


# What the formats' readers agree on: the element names, their children in order, and the attributes that must be there.
_JUNIT = {
    "testsuites": (["testsuite"], {"name", "tests", "failures", "errors"}),
    "testsuite": (["testcase", "system-out"], {"name", "tests", "failures", "errors", "skipped"}),
    "testcase": (["failure"], {"classname", "name"}),
    "failure": ([], {"type", "message"}),
    "system-out": ([], set()),
}


def junit_faults(root: ElementTree.Element) -> list[str]:
    """Where a document departs from the structure of JUnit reports; its counts are part of that."""
    faults = [] if root.tag == "testsuites" else [f"root is {root.tag}"]
    for element in root.iter():
        children, required = _JUNIT.get(element.tag, ([], {"unknown"}))
        faults += [
            f"{element.tag} lacks {name}" for name in sorted(required - element.attrib.keys())
        ]
        order = [children.index(child.tag) if child.tag in children else -1 for child in element]
        if -1 in order or order != sorted(order):
            faults.append(f"{element.tag} holds {[child.tag for child in element]}")
        for name, tag in (("tests", "testcase"), ("failures", "failure")):
            if name in element.attrib and int(element.attrib[name]) != len(list(element.iter(tag))):
                faults.append(f"{element.tag} miscounts {name}")
    return faults


@pytest.mark.parametrize("found", REPORTS)
def test_junit_fits_the_published_schema(found: FindingsReport) -> None:
    path = published("GRAPHSHARE_JUNIT_XSD", "junit-10.xsd, which Jenkins validates reports with")
    import xmlschema  # takes as long as all other modules of this folder

    schema = xmlschema.XMLSchema(str(path))
    text = render(found, "junit")
    schema.validate(text)
    for old, new in (
        ("<testcase ", '<testcase place="1" '),
        ("testsuites", "suites"),
        ("</testsuite>", "<note/></testsuite>"),
    ):
        assert not schema.is_valid(text.replace(old, new))


def test_a_wrong_junit_document_is_found() -> None:
    text = '<testsuites name="a" tests="2" failures="0" errors="0"><testcase classname="a" name="b"/></testsuites>'
    assert junit_faults(ElementTree.fromstring(text)) == [
        "testsuites holds ['testcase']",
        "testsuites miscounts tests",
    ]


@pytest.mark.parametrize("found", REPORTS)
def test_an_annotation_is_one_line(found: FindingsReport) -> None:
    lines = render(found, "github").splitlines()
    assert len(lines) == len(found.findings) + 1
    for line, finding in zip(lines, found.findings, strict=False):
        assert line.isprintable()
        properties, _, message = line[2:].partition("::")
        assert line.startswith(
            f"::{'notice' if finding.level is Level.NOTE else finding.level.value} file="
        )
        assert properties.count(",") == (3 if finding.line else 1)
        assert message.startswith(finding.message[:1])


@pytest.mark.parametrize("found", REPORTS)
def test_text_names_every_finding(found: FindingsReport) -> None:
    text = render(found, "text")
    for finding in found.findings:
        assert f"{finding.level.value} {finding.code} " in text
    assert all(line.isprintable() for line in text.splitlines())
    assert text.splitlines()[-1] == found.summary()


def test_text_points_at_the_column() -> None:
    lines = render(report(), "text").splitlines()
    at = lines.index('  7 | {"op": 1}')
    assert lines[at + 1] == "    |  ^"
    assert lines[:2] == ["a.json:7:5: error GS0 is wrong", '  at $.nodes[3] (node "n")']


def test_the_exit_code_follows_from_the_counts() -> None:
    assert report().exit_code() == 1
    assert empty().exit_code(strict=True) == 0
    warning = FindingsReport(command="check", files=("a",), findings=report().findings[1:2])
    assert (warning.exit_code(), warning.exit_code(strict=True)) == (0, 1)
    note = FindingsReport(command="check", files=("a",), findings=report().findings[2:3])
    assert (note.exit_code(), note.exit_code(strict=True)) == (0, 0)
    assert report().summary() == "2 files: 2 errors, 1 warning, 1 note (2 in the baseline)"


def test_github_is_the_default_inside_github_actions() -> None:
    assert default_format({"GITHUB_ACTIONS": "true"}) == "github"
    assert default_format({}) == "text"
    assert set(FORMATS) == {"text", "json", "github", "junit", "sarif"}


@pytest.mark.parametrize(
    "steps",
    [(), ("nodes", 3, "attrs", "a b"), ("attrs", 'quote"back\\slash'), ("heads", 0), ("", "x.y")],
)
def test_a_path_is_parsed_as_formatted(steps: tuple[str | int, ...]) -> None:
    assert parse_path(format_path(steps)) == steps
    assert parse_path("line 3 column 1") is None


def make(code: str, level: Level = Level.NOTE, **more: Any) -> Finding:
    return Finding(code=code, level=level, message="m", where="a.json", **more)


EVERY_PLACE = FindingsReport(
    command="check",
    files=("a.json",),
    findings=(
        make("GS0", path="$.a", node="n", line=3, column=2, hint="h"),
        make("GS0", path="$.b", line=12, column=1, hint="h", excerpt="{}", excerpt_column=1),
        make("GS1", node="n", hint="h", fixable=True),
        make("GS1", hint="other"),
        make("GS1", Level.WARNING, hint="other"),
    ),
    fixed=1,
    ignored=3,
)


def test_text_has_the_place_that_is_known_and_a_repeated_hint_once() -> None:
    assert render(EVERY_PLACE, "text").splitlines() == [
        "a.json:3:2: note GS0 m",
        '  at $.a (node "n")',
        "a.json:12:1: note GS0 m",
        "  at $.b",
        "  12 | {}",
        "     | ^",
        "  hint: h",
        "a.json: note GS1 m",
        '  at node "n"',
        "  hint: h",
        "a.json: note GS1 m",
        "a.json: warning GS1 m",
        "  hint: other",
        "1 file: 1 warning, 4 notes (1 fixed, 3 suppressed)",
    ]


def test_github_has_the_place_that_is_known() -> None:
    assert render(EVERY_PLACE, "github").splitlines() == [
        '::notice file=a.json,line=3,col=2,title=GS0::m%0Aat $.a (node "n")%0Ahint: h',
        "::notice file=a.json,line=12,col=1,title=GS0::m%0Aat $.b%0Ahint: h",
        '::notice file=a.json,title=GS1::m%0Aat (node "n")%0Ahint: h',
        "::notice file=a.json,title=GS1::m%0Ahint: other",
        "::warning file=a.json,title=GS1::m%0Ahint: other",
        "graphshare check: 1 file: 1 warning, 4 notes (1 fixed, 3 suppressed)",
    ]


def test_junit_has_notes_as_lines_and_the_place_in_the_name_of_a_case() -> None:
    root = ElementTree.fromstring(render(EVERY_PLACE, "junit"))
    (suite,) = root
    assert (
        suite.attrib["tests"],
        suite.attrib["failures"],
        [case.attrib["name"] for case in suite.iter("testcase")],
    ) == ("1", "0", ["check"])
    lines = (suite.findtext("system-out") or "").splitlines()
    assert lines[:6] == [
        "a.json:3:2: note GS0 m",
        "at $.a",
        "hint: h",
        "a.json:12:1: note GS0 m",
        "at $.b",
        "hint: h",
    ]
    failed = [
        msgspec.structs.replace(finding, level=Level.ERROR) for finding in EVERY_PLACE.findings
    ]
    root = ElementTree.fromstring(
        render(msgspec.structs.replace(EVERY_PLACE, findings=tuple(failed)), "junit")
    )
    assert [case.attrib["name"] for case in root.iter("testcase")] == [
        "GS0 $.a",
        "GS0 $.b",
        "GS1 n",
        "GS1",
        "GS1",
    ]


def test_json_and_sarif_leave_out_what_is_not_known() -> None:
    plain = json.loads(render(EVERY_PLACE, "json"))
    assert (plain["version"], plain["fixed"], plain["known"], plain["suppressed"]) == (1, 1, 0, 3)
    places = [
        [finding[key] for key in ("path", "node", "line", "column", "fixable")]
        for finding in plain["findings"]
    ]
    assert places == [
        ["$.a", "n", 3, 2, False],
        ["$.b", None, 12, 1, False],
        ["", "n", None, None, True],
        ["", None, None, None, False],
        ["", None, None, None, False],
    ]
    (run,) = json.loads(render(EVERY_PLACE, "sarif"))["runs"]
    locations = [result["locations"][0] for result in run["results"]]
    regions = [location["physicalLocation"].get("region") for location in locations]
    assert regions == [
        {"startLine": 3, "startColumn": 2},
        {"startLine": 12, "startColumn": 1},
        None,
        None,
        None,
    ]
    assert [location.get("logicalLocations") for location in locations] == [
        [{"fullyQualifiedName": "$.a", "name": "n"}],
        [{"fullyQualifiedName": "$.b"}],
        [{"name": "n"}],
        None,
        None,
    ]
    assert [rule["help"]["text"] for rule in run["tool"]["driver"]["rules"]] == ["GS0", "GS1"]
    assert [result["ruleIndex"] for result in run["results"]] == [0, 0, 1, 1, 1]
    fingerprints = [result["partialFingerprints"]["graphshare/v1"] for result in run["results"]]
    assert len(fingerprints[0]) == 32
    assert (fingerprints[0] == fingerprints[1], fingerprints[3] == fingerprints[4]) == (False, True)


def test_json_is_indented_by_two_blanks() -> None:
    assert render(EVERY_PLACE, "json").startswith('{\n  "version": 1')
    assert render(EVERY_PLACE, "sarif").startswith('{\n  "$schema": ')


def test_characters_that_xml_does_not_have_are_escaped() -> None:
    finding = Finding(code="GS0", level=Level.ERROR, message="a\x01b\ud800", where="a.json")
    text = render(
        FindingsReport(command="check", files=("a.json",), findings=(finding,), rules=RULES),
        "junit",
    )
    (failure,) = ElementTree.fromstring(text.encode()).iter("failure")
    assert failure.attrib["message"] == "a\\x01b\\ud800"


def test_a_finding_keeps_no_credentials_of_a_url() -> None:
    finding = Finding(
        code="GS0",
        level=Level.NOTE,
        message="m",
        where="https://host/a.json?X-Amz-Signature=secret",
    )
    assert "secret" not in finding.where
    assert finding.where.startswith("https://host/a.json")


def test_a_notebook_shows_the_node_and_the_place_of_a_finding() -> None:
    html = report()._repr_html_()
    for cell in ("error", "GS0", "is wrong", "n", report().findings[0].place):
        assert f">{cell}</td>" in html


def test_text_shows_a_hint_behind_the_last_finding_that_has_it() -> None:
    hints = (("GS0", "x"), ("GS0", "x"), ("GS1", "x"), ("GS1", ""), ("GS1", "y"))
    findings = tuple(
        Finding(code=code, level=Level.NOTE, message="m", where="a", hint=hint)
        for code, hint in hints
    )
    lines = render(
        FindingsReport(command="check", files=("a",), findings=findings), "text"
    ).splitlines()
    assert lines[:-1] == [
        *(
            "a: note GS0 m",
            "a: note GS0 m",
            "  hint: x",
            "a: note GS1 m",
            "  hint: x",
            "a: note GS1 m",
        ),
        *("a: note GS1 m", "  hint: y"),
    ]


def test_a_report_prints_what_its_command_prints(tmp_path: Path) -> None:
    stem = ROOT / "fixtures" / "lenet"
    run = done(graphshare("check", stem))
    assert f"{gs.check(stem)}\n" == f"{gs.check(stem).text}\n" == run.stdout.decode()
    siamese = gs.duplicate(gs.load(stem), "b-")
    gs.save(siamese, tmp_path / "siam")
    report = gs.verify(gs.load(tmp_path / "siam"), shapes={"data": (1, 1, 28, 28)})
    shown = done(
        graphshare("verify", "siam", "--shape", "data=1,1,28,28", cwd=tmp_path)
    ).stdout.decode()
    assert f"{report}\n" == f"{report.text}\n" == shown
    assert repr(report) == "<Report: EQUAL: b- and the original, bit for bit>"


def test_an_output_is_read_by_its_name() -> None:
    computed = gs.run(gs.load(ROOT / "fixtures" / "lenet"), shapes={"data": (1, 1, 28, 28)}, seed=0)
    assert computed["softmax_output"] is computed.outputs["softmax_output"]
    assert "softmax_output" in computed
    assert "softmax" not in computed
    assert list(computed) == ["softmax_output"]
    with pytest.raises(
        gs.RefusedError, match="there is no output 'softmax'\n  hint: did you mean 'softmax_output'"
    ):
        computed["softmax"]
