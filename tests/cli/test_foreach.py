"""``foreach``: one command for many models, their outputs below one folder, a manifest, exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import graphshare as gs
from graphshare.cli.fleet import make_template, run_captured
from graphshare.errors import GraphshareError, InputError, OutputError, RefusedError, UsageError
from graphshare.files.schema import find_violations
from graphshare.fleet.manifest import Manifest
from graphshare.fleet.records import Answer, Captured, FleetModel, Result, Run, Task
from graphshare.fleet.work import work
from tests.processes import ROOT, done, environment, graphshare, refused

DUPLICATE = ("duplicate", "{}", "--prefix", "sha-")


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder ``models`` with the fixtures, in the directory of the test."""
    folder = tmp_path / "models"
    folder.mkdir()
    for path in (ROOT / "fixtures").glob("*-*.*"):
        if path.suffix in (".json", ".params"):
            (folder / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """Tasks run in this process, which takes no time to start; the list has those that were run."""
    ran: list[Task] = []

    def run_here(
        tasks: Iterator[Task], run: Run, prepare: object, jobs: int
    ) -> Iterator[tuple[Task, Result]]:
        for task in tasks:
            ran.append(task)
            yield task, work(run, task)

    monkeypatch.setattr("graphshare.fleet.foreach.run_in_slots", run_here)
    return ran


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def answers(results: Sequence[Result]) -> dict[str, str]:
    return {os.path.basename(result.source): result.result for result in results}


def faults_of(error: GraphshareError) -> list[str]:
    return [str(fault) for fault in error.faults]


def test_a_wrong_option_is_an_error_of_the_library(tmp_path: Path) -> None:
    with pytest.raises(gs.GraphshareError, match=r"No such option:? '?--strct") as raised:
        gs.foreach(tmp_path, ["check", "{}", "--strct"])
    assert raised.value.faults[0].hint == "see `graphshare check --help`"


def test_the_outputs_are_those_of_the_command_one_by_one(models: Path, tmp_path: Path) -> None:
    run = done(
        graphshare(
            "foreach",
            "models/*-symbol.json",
            "-o",
            "out",
            "--jobs",
            "2",
            "--",
            *DUPLICATE,
            cwd=tmp_path,
        )
    )
    assert b"3 models: 3 done" in run.stdout
    (tmp_path / "alone").mkdir()
    for stem in ("blog", "lenet", "nin"):
        out = ("-o", f"alone/{stem}", "--map-out", f"alone/{stem}-map.json")
        done(graphshare("duplicate", f"models/{stem}", "--prefix", "sha-", *out, cwd=tmp_path))
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")


def test_what_a_pattern_matches(models: Path, inline: list[Task]) -> None:
    deep = models / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "x-symbol.json").write_bytes((models / "nin-symbol.json").read_bytes())
    (deep / "x-0001.params").write_bytes((models / "lenet-0000.params").read_bytes())
    (deep / "x-0012.params").write_bytes((models / "lenet-0000.params").read_bytes())
    (models / "other.json").write_bytes((models / "nin-symbol.json").read_bytes())
    (models / "net.onnx").write_bytes(b"")

    def matches(*patterns: str) -> list[str]:
        inline.clear()
        list(gs.foreach(patterns, ["inspect", "{}"]))
        return [task.model.relative for task in inline]

    assert matches("models/*") == [
        "blog-symbol.json",
        "lenet-symbol.json",
        "net.onnx",
        "nin-symbol.json",
    ]
    assert matches("models/l*", "models/lenet", "models/nin") == [
        "lenet-symbol.json",
        "nin-symbol.json",
    ]
    assert matches("models/*.json")[-1] == "other.json"
    assert matches("models/**/x*") == ["a/b/x-symbol.json"]
    assert inline[0].model.params == "models/a/b/x-0012.params"
    assert matches("models/a") == matches("models/a/") == ["b/x-symbol.json"]
    assert matches("models/other.json") == ["other.json"]
    with pytest.raises(InputError) as raised:
        matches("models/*", "nothing*", "nowhere")
    assert faults_of(raised.value) == ["nothing*: matches no model", "nowhere: matches no model"]


def test_a_name_with_brackets_is_no_glob(tmp_path: Path, inline: list[Task]) -> None:
    folder = tmp_path / "runs[1]"
    folder.mkdir()
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        (folder / name).write_bytes((ROOT / "fixtures" / name).read_bytes())
    for pattern in (folder / "lenet-symbol.json", folder / "lenet", folder):
        assert answers([*gs.foreach(pattern, ["inspect", "{}"])]) == {"lenet-symbol.json": "done"}
    assert [(task.model.relative, os.path.basename(task.model.params)) for task in inline] == [
        ("lenet-symbol.json", "lenet-0000.params")
    ] * 3


def test_marks_stand_for_the_model_and_its_name(models: Path, inline: list[Task]) -> None:
    list(gs.foreach("models/lenet", ["diff", "{}", "copies/{name}", "--prefix", "{stem}-{}"]))
    list(gs.foreach("models/lenet", ["params", "stats", "{}"]))
    list(gs.foreach("models/lenet", ["inspect", "{}", "--epoch", "0"]))
    model = "models/lenet-symbol.json"
    assert inline[0].words[:5] == (
        "diff",
        model,
        "copies/lenet",
        "--prefix",
        f"models/lenet-{model}",
    )
    assert inline[0].words[5:7] == ("--params", "models/lenet-0000.params")
    assert inline[1].words == ("params", "stats", "models/lenet-0000.params", "--format", "json")
    assert inline[2].words[:4] == ("inspect", "models/lenet", "--epoch", "0")
    assert "--params" not in inline[2].words


@pytest.mark.parametrize(
    ("words", "out", "message"),
    [
        ([], "", "no command is given"),
        (
            ["duplicate", "{}", "--prefix", "a"],
            "",
            "duplicate writes files, and there is no folder for them",
        ),
        (["duplicate", "x", "--prefix", "a"], "out", "the command does not name the model"),
        (["check", "{}"], "out", "check writes no files, so it needs no folder for them"),
        (
            ["group", "{}"],
            "out",
            "group cannot be run for each model: it joins several models in one",
        ),
        (
            ["foreach", "{}"],
            "out",
            "foreach cannot be run for each model: it cannot be its own command",
        ),
        (
            ["upgrade", "{}", "-o", "x", "--in-place"],
            "out",
            "foreach does not accept -o of upgrade: foreach names the outputs",
        ),
        (
            ["upgrade", "{}", "-o", "x", "--in-place"],
            "out",
            "foreach does not accept --in-place of upgrade",
        ),
        (
            ["check", "{}", "--format", "sarif"],
            "",
            "foreach does not accept --format of check: foreach prints one report",
        ),
    ],
)
def test_a_command_that_cannot_be_right_is_refused_before_anything_runs(
    words: list[str], out: str, message: str, models: Path, inline: list[Task]
) -> None:
    with pytest.raises(UsageError) as raised:
        gs.foreach("models/*", words, out=out)
    assert any(fault.startswith(message) for fault in faults_of(raised.value))
    assert inline == []
    assert not (models.parent / "out").exists()


def test_an_unknown_option_is_refused_once(models: Path, tmp_path: Path) -> None:
    run = graphshare("foreach", "models/*", "--", "check", "{}", "--selekt", "GS1", cwd=tmp_path)
    text = refused(run, "--selekt", "--select")
    assert text.count("--selekt") == 1
    refused(graphshare("foreach", "models/*", "--", "chekc", "{}", cwd=tmp_path), "chekc", "check")
    refused(
        graphshare("foreach", "models/*", cwd=tmp_path),
        "no command is given",
        "write it after --, as in `graphshare foreach ",
    )


def test_two_models_in_one_place_are_refused(models: Path, inline: list[Task]) -> None:
    other = models.parent / "other"
    other.mkdir()
    for name in ("nin", "blog"):
        (other / f"{name}-symbol.json").write_bytes((models / f"{name}-symbol.json").read_bytes())
    with pytest.raises(RefusedError) as raised:
        gs.foreach(["models/*", "other/*"], DUPLICATE, out="out")
    text = "\n".join(faults_of(raised.value))
    assert (
        "out/blog-symbol.json: both models/blog-symbol.json and other/blog-symbol.json would be written there"
        in text
    )
    assert "out/nin-symbol.json" in text
    assert "lenet" not in text
    with pytest.raises(RefusedError) as raised:
        gs.foreach("models/*", DUPLICATE, out="other/../models")
    assert "is an input, which foreach does not replace" in faults_of(raised.value)[0]
    assert inline == []


def test_a_second_run_does_what_is_new_changed_or_failed(
    models: Path, inline: list[Task], tmp_path: Path
) -> None:
    broken = models / "broken-symbol.json"
    broken.write_text("{")

    def again(**settings: Any) -> dict[str, str]:
        inline.clear()
        results = list(
            gs.foreach("models/*", DUPLICATE, out="out", manifest="run.jsonl", **settings)
        )
        ran = [os.path.basename(task.model.graph) for task in inline]
        assert [
            os.path.basename(result.source) for result in results if not result.was_skipped
        ] == ran
        return {name: answer for name, answer in answers(results).items() if name in ran}

    assert again() == {"blog-symbol.json": "done", "broken-symbol.json": "failed", "lenet-symbol.json": "done",
                       "nin-symbol.json": "done"}  # fmt: skip
    for line in lines(tmp_path / "run.jsonl"):
        assert find_violations(line, "manifest") == []
    assert again() == {"broken-symbol.json": "failed"}
    os.utime(models / "nin-symbol.json", ns=(1, 1))  # another time and the same content
    broken.write_bytes((models / "nin-symbol.json").read_bytes())
    assert again() == {"broken-symbol.json": "done"}
    params = models / "lenet-0000.params"
    params.write_bytes(params.read_bytes()[:-9])
    (models / "new-symbol.json").write_bytes(broken.read_bytes())
    (tmp_path / "out" / "blog-symbol.json").unlink()
    assert list(again()) == ["blog-symbol.json", "lenet-symbol.json", "new-symbol.json"]
    assert list(again(retry=True)) == ["lenet-symbol.json"]
    retried = gs.foreach("models/*", DUPLICATE, out="out", manifest="run.jsonl", retry=True)
    assert (retried.total, len(list(retried))) == (1, 1)
    assert len(again(force=True)) == 5


def test_lines_that_are_appended_do_not_hide_earlier_ones(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    results = [
        Result(source=f"{number}-symbol.json", command=("check", "{}"), result="done")
        for number in range(200)
    ]
    for again in (False, True):
        manifest = Manifest(str(path))
        assert manifest.is_continued is again
        for result in results:
            assert (manifest.find(result.source) == result) is again
            manifest.append(result)
        manifest.close()


@pytest.mark.parametrize(
    ("answer", "has_failed"), [("done", False), ("no", False), ("failed", True), ("killed", True)]
)
def test_a_manifest_knows_what_has_failed(answer: Answer, has_failed: bool, tmp_path: Path) -> None:
    manifest = Manifest(str(tmp_path / "run.jsonl"))
    tasks = [
        Task(FleetModel(f"{name}-symbol.json", "", 0), ("check", "{}"), (), ())
        for name in ("a", "new")
    ]
    manifest.append(Result(source="a-symbol.json", command=("check", "{}"), result=answer))
    manifest.close()
    manifest = Manifest(str(tmp_path / "run.jsonl"))
    assert [manifest.has_failed(task) for task in tasks] == [has_failed, False]
    manifest.close()


def test_what_is_finished_is_done_again_where_anything_is_another(tmp_path: Path) -> None:
    graph, params, out = (tmp_path / name for name in ("a.json", "a.params", "out.json"))
    for path in (graph, params, out):
        path.write_text("1")
    model = FleetModel(str(graph), str(params), 0)
    task = Task(model, ("x", str(graph)), (str(out),), ("x", "{}"))
    manifest = Manifest(str(tmp_path / "run.jsonl"))
    assert manifest.find_finished(task) is None
    for code, is_finished in ((2, False), (1, True), (0, True)):
        manifest.append(work(lambda words: Captured(code, b"", ""), task))  # noqa: B023  # called at once
        manifest.close()
        manifest = Manifest(str(tmp_path / "run.jsonl"))
        assert (manifest.find_finished(task) is not None) == is_finished
    changed = msgspec.structs.replace
    others = [
        changed(task, command=("y", "{}")),
        changed(task, outputs=()),
        changed(task, model=changed(model, params="")),
    ]
    assert [manifest.find_finished(other) for other in others] == [None, None, None]
    for path in (graph, params):
        path.write_text("2")
        assert manifest.find_finished(task) is None
        path.write_text("1")  # at another time
        found = manifest.find_finished(task)
        assert found is not None
        assert found.was_skipped
    out.unlink()
    assert manifest.find_finished(task) is None
    remote = changed(task, outputs=("s3://bucket/out",))
    manifest.append(work(lambda words: Captured(0, b"", ""), remote))
    manifest.close()
    manifest = Manifest(str(tmp_path / "run.jsonl"))
    assert manifest.find_finished(remote) is not None
    manifest.close()


@pytest.mark.usefixtures("inline")
def test_a_run_counts_its_results_and_shows_those_that_are_not_done_first(models: Path) -> None:
    fleet = gs.foreach("models", ["check", "{}"])
    results = list(fleet)
    counts = Counter(result.result for result in results)
    words = "".join(f", {count} {answer}" for answer, count in counts.items())
    assert repr(fleet) == f"<FleetRun: check {{}}: {len(results)} of {len(results)} models{words}>"
    cells = re.findall("<td[^>]*>(.*?)</td>", fleet._repr_html_())
    shown = list(zip(cells[::4], cells[1::4], strict=True))
    assert shown == sorted(
        ((result.source, result.result) for result in results), key=lambda row: row[1] == "done"
    )


def test_another_command_runs_again(models: Path, inline: list[Task]) -> None:
    for words in (DUPLICATE, (*DUPLICATE, "--mode", "tie")):
        inline.clear()
        list(gs.foreach("models/*", words, out="out", manifest="run.jsonl"))
        assert len(inline) == 3


def test_a_torn_last_line_is_dropped(models: Path, inline: list[Task], tmp_path: Path) -> None:
    manifest = tmp_path / "run.jsonl"
    list(gs.foreach("models/*", ["check", "{}"], manifest=manifest))
    whole = manifest.read_bytes()
    for cut, again in (
        (1, []),
        (2, ["models/nin-symbol.json"]),
        (len(whole.splitlines()[-1]), ["models/nin-symbol.json"]),
    ):
        manifest.write_bytes(whole[:-cut])
        inline.clear()
        list(gs.foreach("models/*", ["check", "{}"], manifest=manifest))
        assert [task.model.graph for task in inline] == again
        assert [line["source"] for line in lines(manifest)] == [
            line["source"] for line in map(json.loads, whole.splitlines())
        ]


def test_a_manifest_of_one_line_and_a_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    mask = os.umask(0)
    manifest = Manifest(str(path))
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666
    assert not os.get_inheritable(manifest._fd)
    manifest.append(Result(source="a", command=("check", "{}"), result="done"))
    manifest.close()
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:20])
    Manifest(str(path)).close()
    assert path.read_bytes() == whole


def test_any_file_name_is_a_line_of_the_manifest(
    models: Path, inline: list[Task], tmp_path: Path
) -> None:
    os.link(models / "nin-symbol.json", os.path.join(os.fsencode(models), b"a\xff\n{}-symbol.json"))
    for _ in range(2):
        results = list(gs.foreach("models/a*", ["inspect", "{}"], manifest="run.jsonl"))
        assert [result.source for result in results] == ["models/a\\udcff\n{}-symbol.json"]
        assert all(results)
    assert len(inline) == 1
    assert (
        run_captured(["foreach", "models/*", "--report", "json", "--", "inspect", "{}"]).code == 0
    )


def test_a_file_that_is_not_a_manifest_is_left_alone(models: Path, tmp_path: Path) -> None:
    line = '{"source":"a","command":["check"],"result":"done"}\n'
    others = ('{"source":"a","target":"b"}', '{"source":"a"}\n', '{"source":', "{", '{"source":"a","result":"done"}\n',
              f"{line}{{}}", f'{line}{{"source":"b"}}', f"{line}notes", f"{line}\n{line}")  # fmt: skip
    for text in ("notes\n", '{"source": "a"}\n[1]\n', "notes", *others):
        (tmp_path / "notes.txt").write_text(text)
        with pytest.raises(InputError, match="is not a line of a manifest"):
            gs.foreach("models/*", ["check", "{}"], manifest="notes.txt")
        assert (tmp_path / "notes.txt").read_text() == text
    for data in (
        b'{"sou\xee": 1}\n',
        b'{"source":"\xee","command":[],"result":"no"}\n',
        b'{"a": ' + b"[" * 100_000 + b"\n",
    ):
        (tmp_path / "notes.txt").write_bytes(data)
        with pytest.raises(InputError, match="is not a line of a manifest"):
            gs.foreach("models/*", ["check", "{}"], manifest="notes.txt")
        assert (tmp_path / "notes.txt").read_bytes() == data
    with pytest.raises(OutputError):
        gs.foreach("models/*", ["check", "{}"], manifest="nowhere/run.jsonl")


def test_a_line_that_the_disk_has_no_room_for_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, write = Manifest(str(tmp_path / "run.jsonl")), os.write
    result = Result(source="a", command=("check", "{}"), result="done")
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:9]))
    with pytest.raises(OutputError, match="the disk is full"):
        manifest.append(result)
    monkeypatch.undo()
    assert (tmp_path / "run.jsonl").read_bytes() == b""
    manifest.append(result)
    manifest.close()
    Manifest(str(tmp_path / "run.jsonl")).close()


def test_one_run_at_a_time_writes_a_manifest(models: Path) -> None:
    first = gs.foreach("models/*", ["check", "{}"], manifest="run.jsonl")
    with pytest.raises(RefusedError, match="another run is writing this manifest"):
        gs.foreach("models/*", ["check", "{}"], manifest="run.jsonl")
    first.close()
    gs.foreach("models/*", ["check", "{}"], manifest="run.jsonl").close()


def test_exit_codes(models: Path, inline: list[Task]) -> None:
    (models / "lenet-symbol.json").write_text(
        (models / "lenet-symbol.json").read_text().replace('"Pooling"', '"Polling"')
    )
    results = {r.source: r for r in gs.foreach("models/*", ["check", "{}"])}
    assert answers(list(results.values())) == {
        "blog-symbol.json": "done",
        "lenet-symbol.json": "no",
        "nin-symbol.json": "done",
    }
    figures = results["models/lenet-symbol.json"].figures
    assert figures["counts.error"] > 0
    run = run_captured(["foreach", "models/*", "--", "check", "{}"])
    assert run.code == 1
    assert b"3 models: 2 done, 1 answered no" in run.stdout
    (models / "blog-symbol.json").write_text("{")
    run = run_captured(["foreach", "models/*", "--", "inspect", "{}"])
    assert run.code == 2
    assert b"failed models/blog-symbol.json: " in run.stdout
    assert b"3 models: 2 done, 1 failed" in run.stdout


def test_settings_that_contradict_each_other(models: Path) -> None:
    contradictions: list[tuple[dict[str, Any], str]] = [
        ({"retry": True}, "needs a manifest"),
        ({"retry": True, "force": True}, "`force` cannot be combined"),
        ({"shared_filesystem": True}, "has no effect without a cluster"),
        ({"max_memory": "lots"}, "not a size"),
    ]
    for settings, message in contradictions:
        with pytest.raises(UsageError, match=message):
            gs.foreach("models/*", ["check", "{}"], **settings)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (
            ["rename", "{}", "--prefix", "{name}_"],
            ["lenet-0000.params", "lenet-map.json", "lenet-symbol.json"],
        ),
        (["share", "{}", "--detect"], []),
        (
            ["extract", "{}", "--target", "fc1"],
            ["lenet-0000.params", "lenet-map.json", "lenet-symbol.json"],
        ),
        (["fold", "{}"], ["lenet-0000.params", "lenet-map.json", "lenet-symbol.json"]),
        (["upgrade", "{}"], ["lenet-0000.params", "lenet-map.json", "lenet-symbol.json"]),
        (["format", "{}", "--layout", "compact"], ["lenet-symbol.json"]),
        (["export", "{}", "--shape", "data=1,1,28,28", "--no-verify"], ["lenet.onnx"]),
        (["draw", "{}"], ["lenet.html"]),
        (["draw", "{}", "--to", "svg"], ["lenet.svg"]),
        (["run", "{}", "--shape", "data=1,1,28,28", "--seed", "1"], ["lenet.npz"]),
        (
            ["run", "{}", "--shape", "data=1,1,28,28", "--seed", "1", "--sgd-steps", "1"],
            ["lenet-0000.params", "lenet.npz"],
        ),
        (["params", "convert", "{}", "{name}.npz"], []),
        (["params", "list", "{}"], []),
        (["params", "stats", "{}"], []),
        (["compare", "{}", "{stem}", "--shape", "data=1,1,28,28"], []),
    ],
)
def test_every_command_runs_for_each_model(
    words: list[str], names: list[str], models: Path, inline: list[Task], tmp_path: Path
) -> None:
    (result,) = gs.foreach("models/lenet", words, out="out" if names else None)
    assert (result.result, result.error) == ("done", "")
    assert sorted(os.path.basename(path) for path in result.outputs) == names
    assert not names or sorted(path.name for path in (tmp_path / "out").iterdir()) == names


def test_templates_have_the_outputs_of_their_commands() -> None:
    assert make_template(DUPLICATE).outputs == (
        ("--out", "graph"),
        ("--params-out", "params"),
        ("--map-out", "map"),
    )
    assert make_template(["export", "{}"]).outputs == (("--out", ".onnx"),)
    assert make_template(["export", "{}"]).has_report
    assert make_template(["duplicate", "{}", "--prefix", "a", "--dry-run"]).outputs == ()
    assert make_template(["format", "{}", "--check"]).outputs == ()
    assert not make_template(["inspect", "{}", "--params", "x"]).takes_params


def test_the_command_starts_lean() -> None:
    heavy = (
        "{'numpy', 'rich', 'jsonschema', 'PIL', 'fsspec', 'distributed', 'asyncio', 'onnxruntime'}"
    )
    code = f"import sys, graphshare.cli.commands.foreach; print({heavy} & set(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout == "set()\n"


def run_script(
    folder: Path, text: str, *, from_stdin: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a script of a user that calls foreach; one that does not end is an error."""
    script = folder / "script.py"
    script.write_text(text)
    words = [sys.executable, "-" if from_stdin else str(script)]
    stdin = text if from_stdin else ""
    return subprocess.run(
        words,
        input=stdin,
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


UNGUARDED = """
import graphshare as gs
print("begin")
for result in gs.foreach("models/*-symbol.json", ["inspect", "{}"], jobs=2, manifest="run.jsonl"):
    print(result.source)
"""


@pytest.mark.parametrize("from_stdin", [False, True])
def test_a_script_needs_no_guard(models: Path, tmp_path: Path, from_stdin: bool) -> None:
    run = run_script(tmp_path, UNGUARDED, from_stdin=from_stdin)
    assert (run.returncode, run.stderr) == (0, "")
    begin, *sources = run.stdout.splitlines()
    assert begin == "begin"
    assert (
        len(sources)
        == (tmp_path / "run.jsonl").read_bytes().count(b"\n")
        == len(list((tmp_path / "models").glob("*-symbol.json")))
    )


@pytest.mark.parametrize(
    "ending",
    [
        "run = gs.foreach(**options)\n    print(next(run).result)",
        pytest.param(
            "run = gs.foreach(**options)\n    for result in run:\n        print(result.result)\n  "
            "      raise SystemExit(0)",
            marks=pytest.mark.large,
        ),
        "for result in gs.foreach(**options):\n        print(result.result)\n        break",
        pytest.param(
            "global run\n    run = iter(gs.foreach(**options))\n    print(next(run).result)\n    run.self = run",
            marks=pytest.mark.large,
        ),
        pytest.param(
            "with gs.foreach(**options) as run:\n        print(next(run).result)",
            marks=pytest.mark.large,
        ),
    ],
)
def test_a_script_that_leaves_the_loop_ends_with_its_workers(
    models: Path, tmp_path: Path, ending: str
) -> None:
    options = "dict(patterns='models/*', command=['inspect', '{}'], jobs=2, manifest='run.jsonl')"
    more = (
        "print(len(multiprocessing.active_children()))"
        if "break" in ending or "with" in ending
        else ""
    )
    text = f"import graphshare as gs, multiprocessing\ndef main():\n    options = {options}\n    {ending}\n    {more}\n"
    run = run_script(tmp_path, text + "if __name__ == '__main__':\n    main()\n")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == ("done\n0\n" if more else "done\n")


def test_a_run_that_is_dropped_leaves_its_manifest_to_the_next(
    models: Path, inline: list[Task]
) -> None:
    for _ in range(2):
        for _ in gs.foreach("models/*", ["inspect", "{}"], manifest="run.jsonl"):
            break
    with gs.foreach("models/*", ["inspect", "{}"], manifest="run.jsonl") as run:
        assert next(run)
    assert len(list(gs.foreach("models/*", ["inspect", "{}"], manifest="run.jsonl"))) == 3


def test_a_stem_beside_its_export(models: Path, inline: list[Task], tmp_path: Path) -> None:
    gs.export("models/lenet", "models/lenet.onnx", shapes={"data": (1, 1, 28, 28)}, verify=False)
    graphs = ["models/lenet-symbol.json", "models/lenet.onnx"]
    for words in (["check", "{}"], ["inspect", "{}"]):
        assert [result.source for result in gs.foreach("models/lenet*", words) if result] == graphs
    results = list(gs.foreach("models/lenet*", DUPLICATE, out="out"))
    assert answers(results) == {"lenet-symbol.json": "done", "lenet.onnx": "done"}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *(
            "lenet-0000.params",
            "lenet-map.json",
            "lenet-symbol.json",
            "lenet.onnx",
            "lenet.onnx-map.json",
        )
    ]
    (result,) = gs.foreach("models/*.onnx", DUPLICATE, out="alone")
    assert result.outputs == ("alone/lenet.onnx", "alone/lenet-map.json")
    inline.clear()
    list(gs.foreach("models/lenet*", ["inspect", "{}", "--epoch", "0"]))
    assert [task.words[1] for task in inline] == ["models/lenet", "models/lenet.onnx"]
    with pytest.raises(
        RefusedError,
        match=r"both models/lenet-symbol\.json and models/lenet\.onnx would be written there",
    ):
        gs.foreach("models/lenet*", ["draw", "{}"], out="out")


def test_a_model_after_two_dashes_and_one_that_begins_with_a_dash(
    models: Path, inline: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(models)
    for end in ("-symbol.json", "-0000.params"):
        os.rename(f"lenet{end}", f"-h{end}")
    for words in (["check", "--", "{}"], ["check", "{}"], ["check", "--strict", "--", "{}"], ["diff", "{}", "{stem}"],
                  ["params", "list", "{}"]):  # fmt: skip
        assert answers(list(gs.foreach("*h-symbol.json", words))) == {"-h-symbol.json": "done"}
    (result,) = gs.foreach("*h-symbol.json", ["duplicate", "--prefix", "b-", "--", "{}"], out="out")
    assert (result.result, sorted(os.listdir("out"))) == (
        "done",
        ["-h-0000.params", "-h-map.json", "-h-symbol.json"],
    )


@pytest.mark.parametrize(
    ("words", "message", "line"),
    [
        (
            ["models/*", "check", "{}"],
            "no command is given",
            "graphshare foreach 'models/*' -- check '{}'",
        ),
        (
            ["models/*", "-o", "out", "chekc", "{}"],
            "no command is given",
            "graphshare foreach 'models/*' -o out -- check '{}'",
        ),
        (
            ["models/*", "chekc"],
            "no command is given",
            "graphshare foreach 'models/*' -- check '{}'",
        ),
        (  # the model stands behind the command
            ["{x}", "check", "models", "fold"],
            "no command is given",
            "graphshare foreach '{x}' check models -- fold '{}'",
        ),
        (  # the value of an option is no command
            ["models/*", "check", "-o", "fold"],
            "no command is given",
            "graphshare foreach 'models/*' -- check -o fold '{}'",
        ),
        (
            ["models/*", "--", "chekc", "{}"],
            "no such command 'chekc'",
            "graphshare foreach 'models/*' -- check '{}'",
        ),
        (
            ["models/*", "--", "params", "lits", "{}"],
            "no such command 'lits'",
            "graphshare foreach 'models/*' -- params list '{}'",
        ),
    ],
)
def test_the_hint_is_the_whole_line_to_type(
    words: list[str], message: str, line: str, models: Path
) -> None:
    run = run_captured(["foreach", *words])
    assert run.code == 2
    assert run.stderr.startswith(f"error: {message}")
    assert run.stderr.endswith(f"  hint: write `{line}`\n")


def test_faults_of_a_command_are_data_with_its_options(models: Path) -> None:
    (models / "blog-symbol.json").write_text("{")
    (fault,) = run_captured(["inspect", "models/blog-symbol.json"]).faults
    assert fault.where == "models/blog-symbol.json"
    (fault,) = run_captured(
        ["export", "models/lenet", "-o", "a.onnx", "--no-verify", "--opset", "3"]
    ).faults
    assert (fault.where, fault.message.partition(" is ")[0]) == ("", "--opset 3")
    (fault,) = run_captured(["inspect", "--xyzzy"]).faults
    assert "--xyzzy" in fault.message
    assert run_captured(["inspect", "models/nin"]).faults == []


def test_the_hint_without_a_line_names_the_program(models: Path) -> None:
    assert (
        "see `graphshare --help`"
        in run_captured(["foreach", "models/*", "--", "xyzzy", "{}"]).stderr
    )
    assert (
        "see `graphshare params --help`"
        in run_captured(["foreach", "models/*", "--", "params", "xyzzy", "{}"]).stderr
    )
    assert "write it after --" in run_captured(["foreach", "models/*"]).stderr


@pytest.mark.large
def test_an_interrupt_leaves_whole_outputs_and_no_process(models: Path, tmp_path: Path) -> None:
    for i in range(400):
        (models / f"{i:03}-symbol.json").write_bytes((models / "nin-symbol.json").read_bytes())
    command = [
        sys.executable,
        "-m",
        "graphshare",
        "foreach",
        "models/*",
        "-o",
        "out",
        "--jobs",
        "2",
        "--manifest",
        "run.jsonl",
    ]
    process = subprocess.Popen(
        [*command, "--", *DUPLICATE],
        env=environment(),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    deadline = time.monotonic() + 60
    while (
        not (tmp_path / "run.jsonl").exists() or len(lines(tmp_path / "run.jsonl")) < 5
    ) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"error: interrupted; a part of out was written" in messages
    finished = lines(tmp_path / "run.jsonl")
    assert 5 <= len(finished) < 403
    assert {path.name[:3] for path in (tmp_path / "out").glob("[0-9]*-symbol.json")} >= {
        os.path.basename(line["source"])[:3] for line in finished if line["source"][7].isdigit()
    }
    assert list((tmp_path / "out").glob(".graphshare*")) == []


def test_a_run_that_writes_nothing_leaves_no_folder(
    models: Path, inline: list[Task], tmp_path: Path
) -> None:
    (models / "broken-symbol.json").write_text("{")
    (result,) = gs.foreach("models/broken-*", DUPLICATE, out="out/below")
    assert (result.result, os.path.exists("out/below")) == ("failed", False)
    list(gs.foreach("models/b*", DUPLICATE, out="out/below"))
    assert os.listdir("out/below")
    Path("there").mkdir()
    list(gs.foreach("models/broken-*", DUPLICATE, out="there"))
    assert os.path.isdir("there")  # it is not ours
