"""One report over all models of ``foreach``: text, JSON, SARIF, JUnit and a page; progress while they run."""

from __future__ import annotations

import gc
import io
import json
import os
import re
import shlex
import shutil
import signal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from graphshare.cli.command import list_command_examples
from graphshare.cli.commands import foreach as foreach_command
from graphshare.cli.fleet import prepare_worker, run_captured
from graphshare.files.schema import find_violations
from graphshare.fleet.records import Answer, Result, Task
from graphshare.fleet.summary import RunSummary, Spool
from graphshare.reports.model import Finding, Level
from tests.cli.test_foreach import inline, models
from tests.processes import ROOT, graphshare

__all__ = ["inline", "models"]  # fixtures


@pytest.fixture
def faulty(models: Path, inline: list[Task]) -> Path:
    """Four models: one with errors, one that cannot be read."""
    lenet = models / "lenet-symbol.json"
    lenet.write_text(lenet.read_text().replace('"Pooling"', '"Polling"'))
    (models / "broken-symbol.json").write_bytes(b"\x00\x01")
    (models / "broken-0000.params").write_bytes(b"")
    return models


def report(format_: str, *words: str) -> tuple[int, str, str]:
    captured = run_captured(["foreach", "models/*", "--report", format_, "--", *words])
    return captured.code, captured.stdout.decode(), captured.stderr


def test_json_has_every_model_in_order_with_its_report(faulty: Path) -> None:
    code, text, messages = report("json", "inspect", "{}")
    found: Any = json.loads(text)
    assert find_violations(found, "foreach") == []
    assert code == 2
    assert found["counts"] == {"done": 3, "no": 0, "failed": 1, "skipped": 0}
    assert [model["source"] for model in found["models"]] == [
        f"models/{name}-symbol.json" for name in ("blog", "broken", "lenet", "nin")
    ]
    for model in found["models"]:
        assert find_violations(model, "manifest") == []
        assert model["result"] == "failed" or find_violations(model["report"], "inspect") == []
    assert found["figures"]["nodes"] == {"count": 3, "sum": 92.0, "min": 4.0, "max": 57.0}
    assert "failed models/broken-symbol.json: " in messages
    assert "4 models: 3 done, 1 failed" in messages


def test_findings_of_all_models_are_one_sarif_log(faulty: Path) -> None:
    code, text, _ = report("sarif", "check", "{}")
    assert code == 1  # the file that cannot be read is a finding of check
    (run,) = json.loads(text)["runs"]
    assert len(run["artifacts"]) == 4
    codes = {
        (r["ruleId"], r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])
        for r in run["results"]
    }
    assert ("GS301", "models/lenet-symbol.json") in codes
    assert ("GS001", "models/broken-symbol.json") in codes
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {code for code, _ in codes} < rules


def test_failures_and_answers_are_cases_of_junit(faulty: Path) -> None:
    (faulty.parent / "copies").mkdir()
    for name in ("blog", "lenet", "nin"):
        (faulty.parent / "copies" / f"{name}-symbol.json").write_bytes(
            (faulty / f"{name}-symbol.json").read_bytes()
        )
    nin = faulty.parent / "copies" / "nin-symbol.json"
    nin.write_text(nin.read_text().replace("cccp1", "cccp9"))
    code, text, _ = report("junit", "diff", "{}", "copies/{name}")
    root = ElementTree.fromstring(text)
    assert code == 2
    assert (root.get("name"), root.get("failures")) == ("graphshare foreach diff", "2")
    failures = {suite.get("name"): suite.find("testcase/failure") for suite in root}
    assert failures["models/blog-symbol.json"] is None
    changed, broken = failures["models/nin-symbol.json"], failures["models/broken-symbol.json"]
    assert changed is not None
    assert "DIFFERENT: 4 nodes renamed" in str(changed.get("message"))
    assert broken is not None
    assert "foreach-failed" in str(broken.text)


def test_text_has_a_table_of_figures(faulty: Path) -> None:
    _, text, _ = report("text", "check", "{}")
    lines = text.splitlines()
    assert "no models/lenet-symbol.json: 2 errors" in lines
    assert [line.split()[i] for line in lines for i in (0, 1, 3) if "counts.error" in line] == [
        "counts.error",
        "0",
        "2",
    ]
    assert lines[-1] == "4 models: 2 done, 2 answered no"


def test_jsonl_has_a_line_per_model(faulty: Path) -> None:
    _, text, _ = report("jsonl", "check", "{}")
    assert sorted(json.loads(line)["result"] for line in text.splitlines()) == [
        "done",
        "done",
        "no",
        "no",
    ]


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert all(name not in ("src", "href", "onload", "onerror") for name, _ in attrs)


def test_the_page_has_histograms_and_needs_nothing_else(faulty: Path) -> None:
    (faulty / "a<script>-symbol.json").write_bytes((faulty / "nin-symbol.json").read_bytes())
    _, text, _ = report("html", "inspect", "{}")
    page = _Page()
    page.feed(text)
    assert page.tags.count("svg") >= 3
    assert page.tags.count("table") == 2
    assert "script" not in page.tags
    assert "nodes: 4 to 57, mean 37.25, sum 149" in text
    assert "models/a&lt;script&gt;-symbol.json" in text


def result(i: int, answer: Any = "done", **more: Any) -> Result:
    return Result(source=f"m{i:02}", command=("check", "{}"), result=answer, **more)


def test_a_spool_sorts_by_source_and_goes_on() -> None:
    spool = Spool()
    for i in (3, 1, 2):
        spool.append(result(i))
    assert [found.source for found in spool.results()] == ["m01", "m02", "m03"]
    spool.append(result(0))
    assert [found.source for found in spool.results()] == ["m00", "m01", "m02", "m03"]


def test_the_summary_keeps_the_first_failures_only() -> None:
    summary = RunSummary()
    for i in range(30):
        summary.add(result(i, "failed" if i % 2 else "done", error="x", was_skipped=i < 4))
    assert (summary.done, summary.failed, summary.skipped, summary.total, summary.exit_code) == (
        15,
        15,
        4,
        30,
        2,
    )
    assert len(summary.first) == 10


def test_the_first_10_failures_are_printed_and_the_rest_counted(tmp_path: Path) -> None:
    names = [f"m{number:02}.json" for number in range(12)]
    command = ("foreach", "*.json", "--jobs", "1", "--", "inspect", "{}")
    for count in (10, 11, 12):
        for name in names[:count]:
            (tmp_path / name).write_text("[]")
        run = graphshare(*command, cwd=tmp_path)
        lines = run.stdout.decode().splitlines()
        assert run.returncode == 2
        assert [line.partition(": ")[0] for line in lines[:10]] == [
            f"failed {name}" for name in names[:10]
        ]
        rest = (
            [f"and {count - 10} more; --report json or a manifest has all of them"]
            if count > 10
            else []
        )
        assert [line for line in lines if " more" in line] == rest
        assert lines[-1] == f"{count} models: 0 done, {count} failed"


def test_progress_on_a_terminal_and_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    messages: list[str] = []
    monkeypatch.setattr(foreach_command, "monotonic", lambda: clock[0])
    monkeypatch.setattr("graphshare.cli.console.monotonic", lambda: clock[0])
    monkeypatch.setattr(foreach_command, "say", messages.append)
    monkeypatch.setattr(foreach_command, "is_shown", lambda: False)
    progress = foreach_command.FleetProgress(1010)
    for i in range(110):
        clock[0] += 1.0 if i >= 10 else 0.0
        progress.add(result(i, "failed" if i == 50 else "done", was_skipped=i < 10))
    assert messages == [
        "30 of 1,000 models, 1 models/s, 16:10 left",
        "60 of 1,000 models, 1 models/s, 15:40 left, 1 failed",
        "90 of 1,000 models, 1 models/s, 15:10 left, 1 failed",
    ]
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(foreach_command, "is_shown", lambda: True)
    progress = foreach_command.FleetProgress(100)
    for i in range(20):
        clock[0] += 4.0
        progress.add(result(i, "failed" if i == 5 else "done"))
    progress.end()
    assert "20%  0.2 models/s  5:20 left  1 failed" in stream.getvalue()


def test_the_page_says_why_each_model_is_not_done(faulty: Path) -> None:
    code, text, _ = report("html", "check", "{}")
    assert code == 1
    reasons = dict(
        re.findall(r"<tr><td>(.*?)</td><td>no</td><td>[0-9.]+</td><td>(.*?)</td></tr>", text)
    )
    assert "Polling" in reasons["models/lenet-symbol.json"]
    assert "is not JSON" in reasons["models/broken-symbol.json"]


def test_an_answer_of_no_is_a_finding_of_its_own_only_where_nothing_else_says_why() -> None:
    def find(result: str, report: bytes = b"{}") -> list[str]:
        row = Result(source="a", command=(), result=result, report=msgspec.Raw(report))  # type: ignore[arg-type]
        return [finding.code for finding in foreach_command._find("check", row)]

    finding = b'{"findings":[{"code":"GS301","level":"error","message":"m"}]}'
    assert [find("no"), find("no", finding), find("done", finding), find("done")] == [
        ["foreach-no"],
        ["GS301"],
        ["GS301"],
        [],
    ]


@pytest.mark.parametrize(
    ("result", "levels", "is_strict"),
    [
        ("no", ["warning"], True),
        ("no", ["warning", "error"], False),
        ("done", ["warning"], False),
        ("done", [], False),
    ],
)
def test_a_report_is_strict_where_a_model_without_errors_has_failed(
    result: Answer, levels: list[str], is_strict: bool
) -> None:
    found = {"findings": [{"code": "GS301", "level": level, "message": "m"} for level in levels]}
    row = Result(
        source="a", command=(), result=result, report=msgspec.Raw(json.dumps(found).encode())
    )
    report = foreach_command.collect_findings("check", [row])
    assert (report.files, report.strict, len(report.findings)) == (("a",), is_strict, len(levels))


def test_the_reason_names_the_first_findings() -> None:
    def reason(**more: object) -> str:
        return Result(source="a", command=(), result="no", **more).reason  # type: ignore[arg-type]

    def findings(*levels: str) -> msgspec.Raw:
        return msgspec.Raw(
            json.dumps(
                {"findings": [{"level": v, "message": f"{v} {i}"} for i, v in enumerate(levels)]}
            ).encode()
        )

    assert reason(report=findings("warning", "error", "note", "error")) == "error 1; error 3"
    assert reason(report=findings("warning", "note")) == "warning 0; note 1"
    assert reason(report=findings(*["error"] * 5)) == "error 0; error 1; error 2; and 2 more"
    assert reason(report=msgspec.Raw(b'{"verdict":"NOT EQUAL"}')) == "NOT EQUAL"
    assert reason(report=findings("error"), error="it") == "it"
    assert reason() == reason(report=msgspec.Raw(b"[1]")) == ""


def find(command: str, answer: Answer, report: object = None, **more: Any) -> list[Finding]:
    row = Result(
        source="a",
        command=(),
        result=answer,
        report=msgspec.Raw(json.dumps(report).encode()),
        **more,
    )
    return list(foreach_command._find(command, row))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (find("run", "failed", error="no space"), [("foreach-failed", "error", "no space")]),
        (find("run", "killed"), [("foreach-failed", "error", "killed")]),
        (find("run", "failed", {"verdict": "EQUAL"}, error="late"), [("foreach-failed", "error", "late")]),
        (find("verify", "done"), []),
        (find("verify", "no"), [("foreach-no", "error", "the answer is no")]),
        (find("verify", "no", error="two differ"), [("foreach-no", "error", "two differ")]),
        (find("verify", "no", {"verdict": "NOT EQUAL"}, error="x"), [("foreach-no", "error", "NOT EQUAL")]),
        (find("verify", "done", {"verdict": "EQUAL"}), [("verify-verdict", "note", "EQUAL")]),
        (find("check", "no", {"findings": [{"level": "note", "message": "m"}]}), [("", "note", "m")]),
        (
            find("check", "no", {"verdict": "v", "findings": [{"level": "note", "message": "m"}]}),
            [("", "note", "m"), ("foreach-no", "error", "v")],
        ),
        (
            find("verify", "done", {"branches": [{"branch": "b-", "stages": [
                {"name": "bytes", "verdict": "holds", "summary": "s"},
                {"name": "values", "verdict": "fails", "summary": "y differs", "details": ["by 3", "at 0"]},
            ]}]}),
            [("verify-values", "error", "values of b-: y differs\nby 3\nat 0")],
        ),
    ],
)  # fmt: skip
def test_the_findings_of_a_model(
    found: list[Finding], expected: list[tuple[str, str, str]]
) -> None:
    assert [(each.code, each.level.value, each.message) for each in found] == expected
    assert all((each.line, each.column) == (0, 0) for each in found)


def test_a_finding_keeps_its_place() -> None:
    place = {
        "file": "f.json",
        "path": "$.nodes[1]",
        "node": "n",
        "line": 3,
        "column": 4,
        "hint": "h",
    }
    (found,) = find(
        "check", "no", {"findings": [{"code": "GS1", "level": "warning", "message": "m", **place}]}
    )
    assert found == Finding(
        code="GS1",
        level=Level.WARNING,
        message="m",
        where="f.json",
        path="$.nodes[1]",
        node="n",
        line=3,
        column=4,
        hint="h",
    )


def test_the_streams_of_a_worker_lead_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[object] = []

    def open_file(path: str, flags: int) -> int:
        events.append((path, flags))
        return 77

    monkeypatch.setattr(os, "open", open_file)
    monkeypatch.setattr(os, "dup2", lambda source, target: events.append((source, target)))
    monkeypatch.setattr(os, "close", events.append)
    monkeypatch.setattr(signal, "signal", lambda number, handler: events.append(number))
    monkeypatch.setattr(
        "graphshare.cli.fleet.note_inherited_descriptors", lambda: events.append("noted")
    )
    monkeypatch.setattr(gc, "freeze", lambda: events.append("frozen"))
    prepare_worker()
    monkeypatch.undo()
    assert events == [
        (os.devnull, os.O_RDWR), (77, 0), (77, 1), (77, 2), 77, "noted", signal.SIGTERM, "frozen"
    ]  # fmt: skip


def test_rates_of_few_models_have_a_decimal() -> None:
    progress = foreach_command.FleetProgress(5)
    amounts = {
        0: "0 models",
        0.25: "0.2 models",
        3: "3 models",
        9.96: "10.0 models",
        10: "10 models",
        10.5: "10 models",
    }
    assert {count: progress._amount(count) for count in amounts} == amounts


def test_the_examples_of_findings_print_findings(tmp_path: Path) -> None:
    for name in ("gpt", "gpt-twice"):
        shutil.copytree(ROOT / "fixtures" / name, tmp_path / name)
    lines = [line for _, line in list_command_examples("foreach") if "check {}" in line]
    assert len(lines) == 2
    for line in lines:
        words = ["gpt*" if "*" in word else word for word in shlex.split(line)[1:]]
        run = graphshare(*words, cwd=tmp_path)
        assert b"GS701" in run.stdout
