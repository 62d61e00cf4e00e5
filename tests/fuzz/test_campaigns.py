"""The campaigns find planted faults, give equal cases for equal seeds, and survive what kills or hangs a case."""

from __future__ import annotations

import mmap
import os
import random
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from graphshare.cli import main
from graphshare.errors import GraphshareError, InputError
from graphshare.execute.backends.confined_session import ConfinedSession
from graphshare.execute.backends.session import SessionSettings
from graphshare.files.remote import listing
from graphshare.fleet import manifest
from graphshare.ops.registry import find_kernel
from graphshare.resources import resource_limits
from tests.fuzz import graphs, onnx_models, operators, reads, servers
from tests.fuzz.collect import Collector
from tests.fuzz.heavy_models import make_heavy
from tests.fuzz.readers import READERS
from tests.fuzz.sandbox import HANG, abort, run_one
from tests.onnx_files.mutable import SOURCES, draw_inputs
from tests.onnx_files.mutants import list_mutants
from tests.surroundings import size_of_day


@pytest.mark.large
def test_a_seed_gives_the_same_cases() -> None:
    first, again, other = operators.Cases(3), operators.Cases(3), operators.Cases(4)
    made = [[(case["attrs"], [x.tobytes() for x in inputs]) for case, inputs in map(cases.make, range(40))]
            for cases in (first, again, other)]  # fmt: skip
    assert made[0] == made[1] != made[2]
    assert reads.Blind(3).make(7) == reads.Blind(3).make(7) != reads.Blind(4).make(7)
    assert graphs.Cases(3).make(50) == graphs.Cases(3).make(50)


def test_a_case_that_hangs_dies_or_takes_too_much_is_a_failure() -> None:
    assert run_one(lambda number: (time.sleep(30), ("done", ""))[1], 0, seconds=0.3).sort == HANG  # type: ignore[func-returns-value]
    assert run_one(lambda number: (abort(), ("done", ""))[1], 0).sort == "signal 6"  # type: ignore[func-returns-value]
    # a mapping of its own: memory that the process once had and freed would serve a bytearray
    taken = run_one(
        lambda number: ("done", str(len(mmap.mmap(-1, 200 << 20)))), 0, memory=100 << 20
    )
    assert taken.what.startswith("OSError: [Errno 12]")
    assert (
        run_one(lambda number: (os._exit(3), ("done", ""))[1], 0).what == "ended with exit code 3"
    )
    assert run_one(lambda number: (os._exit(2), ("done", ""))[1], 0).status == "refused"
    assert run_one(lambda number: ("done", "x"), 5).status == "done"


def test_the_operators_find_a_kernel_that_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernel = find_kernel("relu")
    assert kernel is not None
    cases = operators.Cases(0)
    cases.operators = ["relu"]
    assert all(cases.run(number)[0] in ("done", "refused") for number in range(20))
    monkeypatch.setattr(operators, "forward", lambda case, inputs: 1 / 0)
    monkeypatch.setattr(operators, "Cases", lambda seed: cases)
    totals = operators.run(0.01, 0, tmp_path)
    assert totals.failures
    assert "ZeroDivisionError" in totals.failures[0].message
    assert {path.name for path in (tmp_path / "1").iterdir()} == {
        "case-symbol.json",
        "feeds.npz",
        "command",
        "what",
    }


@pytest.mark.parametrize("name", READERS)
def test_the_seeds_of_a_reader_are_valid(name: str) -> None:
    assert all(map(READERS[name].read_or_refuse, READERS[name].seeds()))


def test_a_manifest_that_loses_a_line_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = READERS["manifest"].seeds()[2]
    assert READERS["manifest"].read_or_refuse(lines)
    # As if every last line were a torn one
    monkeypatch.setattr(manifest, "_is_torn", lambda line: True)
    with pytest.raises(AssertionError, match="became"):
        READERS["manifest"].read_or_refuse(lines)
    monkeypatch.setattr(manifest.Manifest, "_read", lambda self: os.truncate(self.path, 0))
    with pytest.raises(AssertionError, match="became"):
        READERS["manifest"].read_or_refuse(b"the only copy\n")


def test_a_link_that_leaves_its_folder_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    page = b'<a href="a/"><a href="%252e%252e%252fx"><a href="b">'
    assert READERS["page"].read(page) == ["http://127.0.0.1/models/a/", "http://127.0.0.1/models/b"]
    monkeypatch.setattr(listing, "leaves_folder", lambda name: False)
    with pytest.raises(AssertionError, match="is not in its folder"):
        READERS["page"].read(page)


def test_blind_reads_find_a_reader_that_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def read(data: bytes) -> object:
        if data[:1] == b"\xff":
            raise KeyError("planted")
        raise InputError("refused")

    planted = READERS["map"].__class__(read, lambda: [b"\xff"], (b"x",), ("x",), ".map")
    monkeypatch.setattr(reads, "READERS", {"map": planted})
    collector = Collector(tmp_path)
    reads.run_blind(collector, 0.02, 0)
    assert any("planted" in failure.message for failure in collector.totals.failures)
    assert (tmp_path / "1" / "input.map").read_bytes()[:1] == b"\xff"


@pytest.mark.large
def test_atheris_finds_a_reader_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    monkeypatch.setattr(reads, "READERS", {"map": READERS["map"]})
    totals = reads.run(0.1, 1, tmp_path)
    assert totals.executions > 500
    assert totals.counts["answers"] > 0


def test_changed_onnx_models_find_a_wrong_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every command ends well on a few models; one that calls a changed weight equal, or writes
    another model, is found.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(onnx_models, "COMMANDS", onnx_models.COMMANDS[:: size_of_day(6, 1)])
    cases = onnx_models.Cases(0)
    assert {cases.run(number)[0] for number in range(len(cases.commands))} <= {"done", "refused"}
    assert not any(tmp_path.iterdir())
    mutant = next(
        mutant
        for mutant in list_mutants()
        if mutant.source == "made_dense" and mutant.what == "last number"
    )
    source = SOURCES["made_dense"]()
    files = {
        onnx_models.MODEL: mutant.build().model.SerializeToString(),
        onnx_models.OTHER: source.model.SerializeToString(),
        onnx_models.FEEDS: onnx_models.pack(draw_inputs(source.model)[0]),
    }
    for name, data in {**files, "out.onnx": files[onnx_models.OTHER]}.items():
        (tmp_path / name).write_bytes(data)
    assert "onnxruntime computes" in cases.find_fault(
        ["compare", onnx_models.MODEL, onnx_models.OTHER], files, 0
    )
    assert not cases.find_fault(["compare", onnx_models.OTHER, onnx_models.OTHER], files, 0)
    assert cases.find_fault(["compare", onnx_models.OTHER, onnx_models.OTHER], files, 1)
    assert "onnxruntime computes" in cases.find_fault(
        ["rename", onnx_models.MODEL, "--prefix", "y_"], files, 0
    )


@pytest.mark.parametrize("has_ended", [True, pytest.param(False, marks=pytest.mark.large)])
def test_memory_beyond_the_limit_is_found(has_ended: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process takes counts that a command starts, whether that goes on or has ended."""
    # The system keeps the largest of all
    size = (500 << 20) + (resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)
    taken = [
        sys.executable,
        "-c",
        f"import sys; data = b'x' * {size}; print(flush=True); sys.stdin.read()",
    ]
    limited = ["run", onnx_models.MODEL, "--max-memory", onnx_models.MEMORY]
    cases, started = onnx_models.Cases(0), []

    def start(words: list[str]) -> tuple[int, str]:
        process = subprocess.Popen(taken, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        if has_ended:
            process.communicate()
        return 0, ""

    monkeypatch.setattr(graphs, "call", start)
    assert graphs.judge(limited, *cases.call(limited))[0] == "failed"
    if not has_ended:
        started[0].communicate()
    monkeypatch.setattr(graphs, "call", lambda words: (0, ""))
    assert graphs.judge(limited, *cases.call(limited))[0] == "done"


def test_a_file_that_is_lost_or_written_too_early_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"a": b"a"}
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "out.json").write_bytes(graphs.OLD)
    assert not graphs.find_damage(["rename"], files, ["out.json"], "refused")
    (tmp_path / "out.json").write_bytes(b"half")
    assert not graphs.find_damage(["rename"], files, ["out.json"], "done")
    assert (
        graphs.find_damage(["rename"], files, ["out.json"], "refused")
        == "refused, and out.json was written"
    )
    (tmp_path / "a").write_bytes(b"")
    assert graphs.find_damage(["rename"], files, [], "done") == "a is not what it was"


@pytest.fixture
def servers_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> servers.Cases:
    monkeypatch.chdir(tmp_path)  # the cases change it
    return servers.Cases(0, tmp_path)


def test_servers_that_lie(servers_cases: servers.Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "COMMANDS", servers.COMMANDS[:: size_of_day(5, 1)])
    outcomes = [servers_cases.run(number) for number in range(size_of_day(5, 100))]
    assert {status for status, _ in outcomes} <= {"done", "refused"}, outcomes


def plant(monkeypatch: pytest.MonkeyPatch, command: str, rate: float = 0.5) -> None:
    """Let every case be one of this command, on a server that lies now and then about nothing but pages and places."""
    monkeypatch.setattr(servers, "COMMANDS", [command.split()])
    monkeypatch.setattr(servers, "LIES", {"close": servers.close_delimited})
    monkeypatch.setattr(servers, "RATES", [rate])


def test_a_request_out_of_the_folder_is_found(
    servers_cases: servers.Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, "check URL/ext.onnx --isolated")
    assert {servers_cases.run(number)[0] for number in range(20)} <= {"done", "refused"}
    monkeypatch.setattr("graphshare.formats.onnx.tensors.leaves_folder", lambda name: False)
    assert any("was requested" in servers_cases.run(number)[1] for number in range(20))


def test_credentials_in_a_message_are_found(
    servers_cases: servers.Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, "inspect URL/nowhere.json?QUERY", rate=0.0)
    assert servers_cases.run(0) == ("refused", "")
    for name in ("_CREDENTIALS", "_SLASH_IN_PASSWORD"):
        monkeypatch.setattr(f"graphshare.text.urls.{name}", re.compile("()x^"))
    assert "is in what was printed" in servers_cases.run(0)[1]


def test_files_that_a_lying_server_has_changed_are_found(servers_cases: servers.Cases) -> None:
    assert not servers_cases.find_file(0, None, set())
    out = servers_cases.work / "out"
    out.mkdir()
    (out / "out.npz").write_bytes(servers_cases.converted["out.npz"])
    assert not servers_cases.find_file(0, None, {"cut"})
    assert servers_cases.find_file(2, None, set()) == "refused, and out.npz was written"
    (out / "out.npz").write_bytes(b"")
    assert not servers_cases.find_file(0, None, {"bytes"})
    assert servers_cases.find_file(0, None, {"cut"}) == "out.npz is not what the server has"
    (servers_cases.work / "run.jsonl").write_bytes(b"")
    assert servers_cases.find_file(0, b"notes\n", {"bytes"}) == "the manifest has lost a line"
    (servers_cases.work.parent / "x").write_bytes(b"")
    assert servers_cases.find_file(0, None, set()) == "b/x is not below the folder of outputs"


def test_heavy_models_are_heavy() -> None:
    """Of each kind some take more than the limit, and some are computed."""
    sizes = {len(make_heavy(random.Random(seed)).SerializeToString()) for seed in range(100)}
    assert max(sizes) < 2000
    answers = []
    for seed in range(1, size_of_day(5, 60)):
        model = make_heavy(random.Random(seed)).SerializeToString()
        try:
            with resource_limits("50M", 2):
                session = ConfinedSession(
                    model, settings=SessionSettings(merge_equal=False, awake=False)
                )
                answers.append(f"{len(session.run({'data': np.ones((2, 2), np.float32)}))} outputs")
        except GraphshareError as error:
            answers.append(str(error))
    assert "2 outputs" in answers
    assert any("takes more memory" in answer for answer in answers)


def test_a_command_that_fails_is_told_by_what_it_prints() -> None:
    words = ["inspect", "x"]
    assert graphs.judge(words, 0, "")[0] == "done"
    assert graphs.judge(words, 2, "error: x\n")[0] == "refused"
    for code, errors in (
        (2, "error: this is a bug in graphshare: x"),
        (0, "a.py:1: RuntimeWarning: x"),
        (3, ""),
        (2, ""),
        (2, "x"),
    ):
        assert graphs.judge(words, code, errors)[0] == "failed"


@pytest.mark.large
def test_the_graphs_find_a_command_that_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(main, "_main", lambda words: {}["planted"])
    monkeypatch.setattr(graphs, "COMMANDS", (["format", "GRAPH", "-o", "out.json"],))
    monkeypatch.chdir(tmp_path)
    cases = graphs.Cases(0)
    assert cases.run(0)[0] == "failed"
    assert not list(tmp_path.glob("out*"))
