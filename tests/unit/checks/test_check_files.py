"""A run on several targets: processes, models in memory, and the comparison that a fix makes before it writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

import graphshare as gs
from graphshare.checks import check_files as checking
from graphshare.checks import fix
from graphshare.checks.baseline import format_baseline
from graphshare.checks.check_files import check_targets
from graphshare.checks.config import CheckOptions
from graphshare.checks.context import CheckContext
from graphshare.checks.engine import RULES
from graphshare.checks.rule import dense, operator, symbol, variable
from graphshare.checks.targets import Target, _normalize
from graphshare.errors import InputError, SelfCheckError
from graphshare.progress import progress_listener
from tests.listener import Recorder
from tests.processes import write_json
from tests.symbols import siamese

T = TypeVar("T")
R = TypeVar("R")


@pytest.mark.parametrize(
    ("count", "jobs", "processes"),
    [(2, 1, None), (16, 4, None), (17, 1, None), (17, 4, 2), (32, 4, 2), (33, 4, 3), (33, 2, 2)],
)
def test_there_is_a_process_for_sixteen_files_at_most_as_many_as_jobs(
    count: int, jobs: int, processes: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[int, list[int]]] = []

    def run_here(
        work: Callable[[Sequence[Target]], R], chunks: Sequence[Sequence[Target]], jobs: int
    ) -> Iterator[R]:
        started.append((jobs, [len(chunk) for chunk in chunks]))
        return map(work, chunks)

    monkeypatch.setattr("graphshare.worker_process.map_in_workers", run_here)
    targets = [Target(str(tmp_path / f"{i}.json")) for i in range(count)]
    for target in targets:
        Path(target.graph).write_text(dense())
    assert [
        result.target for result in check_targets(targets, CheckOptions(), jobs=jobs)
    ] == targets
    chunks = [16] * (count // 16) + [count % 16] * (count % 16 > 0)
    assert started == ([] if processes is None else [(processes, chunks)])


def test_models_in_memory_are_each_reported(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(str(RULES["GS108"].fails.graph))
    model = gs.load(tmp_path / "a.json")
    assert [finding.code for finding in gs.check([model, model], isolated=True).findings] == [
        "GS108",
        "GS108",
    ]


def test_a_model_in_memory_is_checked_as_its_file_is_or_would_be_written(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("\n\n" + str(RULES["GS303"].fails.graph))
    model = gs.load(tmp_path / "a.json")
    (read,) = gs.check(model, isolated=True).findings
    (made,) = gs.check(gs.rename(model, prefix="p-"), isolated=True).findings
    assert (read.code, read.line, made.code, made.line) == ("GS303", 7, "GS303", 7)


def test_the_baseline_is_the_given_one_or_that_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(str(RULES["GS303"].fails.graph))
    report = gs.check(tmp_path / "a.json", isolated=True)
    (tmp_path / "known.json").write_text(
        format_baseline(report.findings, str(tmp_path / "known.json"))
    )
    assert (
        report.known,
        gs.check(tmp_path / "a.json", isolated=True, baseline=tmp_path / "known.json").known,
    ) == (0, 1)
    (tmp_path / "graphshare.toml").write_text('[check]\nbaseline = "known.json"\n')
    assert gs.check(tmp_path / "a.json", config=tmp_path / "graphshare.toml").known == 1


CHAIN = symbol(
    variable("data"),
    operator("relu", "a", 0),
    operator("SliceChannel", "b", 1, num_outputs="2"),
    arg_nodes=[],
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"a"', '"c"'),
        ('"relu"', '"sigmoid"'),
        ('"num_outputs": "2"', '"num_outputs": "3"'),
        ('"heads": [[2, 0, 0]]', '"heads": [[2, 1, 0]]'),
        ('"heads": [[2, 0, 0]]', '"heads": [[1, 0, 0]]'),
        ('"heads": [[2, 0, 0]]', '"heads": [[2, 0, 0], [2, 0, 0]]'),
        ('"heads": [[2, 0, 0]]', '"heads": []'),
    ],
)
def test_a_fix_that_would_be_another_graph_is_refused(
    before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = CheckContext("a.json", CHAIN.encode())
    fixed = fix.fix_graph(context, {"GS108"})
    assert fixed is not None
    assert b'"arg_nodes": [0]' in fixed
    assert before in CHAIN
    changed = CHAIN.replace('"arg_nodes": []', '"arg_nodes": [0]').replace(before, after)
    monkeypatch.setattr(fix, "write_symbol", lambda graph: [changed.encode()])
    with pytest.raises(SelfCheckError, match="would not be the same graph"):
        fix.fix_graph(context, {"GS108"})


@pytest.mark.parametrize(
    ("path", "plain"),
    [("a//b/../c", "a/c"), ("./a", "a"), ("", ""), ("s3://b/../a", "s3://b/../a")],
)
def test_one_file_is_one_target_however_its_path_is_written(path: str, plain: str) -> None:
    assert _normalize(path) == plain.replace("/", os.sep if "://" not in plain else "/")


def test_each_of_several_files_is_a_step(tmp_path: Path) -> None:
    paths = [write_json(tmp_path / f"{name}.json", siamese()) for name in "abc"]
    with progress_listener(recorder := Recorder()):
        check_targets([Target(str(path)) for path in paths], CheckOptions())
    assert recorder.calls == [("checking", 3, "files"), (1,), (1,), (1,), ("end",)]


def test_a_file_that_is_gone_after_the_fixes_leaves_the_others_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixable, other = tmp_path / "fixable-symbol.json", tmp_path / "other-symbol.json"
    write_json(other, siamese())
    before = b"\xef\xbb\xbf" + other.read_bytes()
    fixable.write_bytes(before)
    stage_fix = checking.stage_fix

    def stage_and_remove(*arguments: Any) -> None:
        stage_fix(*arguments)
        other.unlink()

    monkeypatch.setattr(checking, "stage_fix", stage_and_remove)
    with pytest.raises(InputError, match=r"other-symbol\.json"):
        gs.check(tmp_path, fix=True, isolated=True)
    assert fixable.read_bytes() == before


def test_fixed_files_are_counted_and_written(tmp_path: Path) -> None:
    path = tmp_path / "fixable-symbol.json"
    write_json(path, siamese())
    data = path.read_bytes()
    path.write_bytes(b"\xef\xbb\xbf" + data)
    assert gs.check(path, fix=True, isolated=True).fixed
    assert path.read_bytes() == data
