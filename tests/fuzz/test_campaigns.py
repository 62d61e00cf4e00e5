"""The campaigns find planted faults, give equal cases for equal seeds, and survive what kills or hangs a case."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import pytest

from graphshare.cli import main
from graphshare.errors import InputError
from graphshare.fleet import manifest
from graphshare.formats.remote import listing
from graphshare.ops.registry import find_kernel
from tests.fuzz import graphs, onnx_models, operators, reads
from tests.fuzz.collect import Collector
from tests.fuzz.readers import READERS
from tests.fuzz.sandbox import HANG, run_one


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
    assert run_one(lambda number: (os.abort(), ("done", ""))[1], 0).sort == "signal 6"
    # a mapping of its own: memory that the process once had and freed would serve a bytearray
    taken = run_one(lambda number: ("done", str(len(mmap.mmap(-1, 200 << 20)))), 0, memory=100 << 20)
    assert taken.what.startswith("OSError: [Errno 12]")
    assert run_one(lambda number: (os._exit(3), ("done", ""))[1], 0).what == "ended with exit code 3"
    assert run_one(lambda number: (os._exit(2), ("done", ""))[1], 0).status == "refused"
    assert run_one(lambda number: ("done", "x"), 5).status == "done"


def test_the_operators_find_a_kernel_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
    assert {path.name for path in (tmp_path / "1").iterdir()} == {"case-symbol.json", "feeds.npz", "command", "what"}


@pytest.mark.parametrize("name", READERS)
def test_the_seeds_of_a_reader_are_valid(name: str) -> None:
    assert all(map(READERS[name].read_or_refuse, READERS[name].seeds()))


def test_a_manifest_that_loses_a_line_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = READERS["manifest"].seeds()[2]
    assert READERS["manifest"].read_or_refuse(lines)
    monkeypatch.setattr(manifest, "_is_torn", lambda line: True)  # as if every last line were a torn one
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


def test_blind_reads_find_a_reader_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def read(data: bytes) -> object:
        if data[:1] == b"\xff":
            raise KeyError("planted")
        raise InputError("refused")

    monkeypatch.setitem(READERS, "map", reads.READERS["map"].__class__(read, lambda: [b"\xff"], (b"x",), ("x",), ".map"))
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


@pytest.mark.large
def test_changed_onnx_models_find_a_rewrite_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not onnx_models.run(0.01, 0, tmp_path).failures
    monkeypatch.setattr(onnx_models, "ACTIONS", {"planted": lambda model, chance, out: 1 / 0})
    totals = onnx_models.run(0.01, 0, tmp_path)
    assert "ZeroDivisionError" in totals.failures[0].message
    assert {path.name for path in (tmp_path / "1").iterdir()} == {"input.onnx", "w.bin", "command", "what"}


def test_a_command_that_fails_is_told_by_what_it_prints() -> None:
    words = ["inspect", "x"]
    assert graphs.judge(words, 0, "")[0] == "done"
    assert graphs.judge(words, 2, "error: x\n")[0] == "refused"
    for code, errors in (
        (2, "error: this is a bug of graphshare: x"),
        (0, "a.py:1: RuntimeWarning: x"),
        (3, ""),
        (2, ""),
        (2, "x"),
    ):
        assert graphs.judge(words, code, errors)[0] == "failed"


@pytest.mark.large
def test_the_graphs_find_a_command_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(main, "_main", lambda words: {}["planted"])
    monkeypatch.setattr(graphs, "COMMANDS", (["format", "GRAPH", "-o", "out.json"],))
    monkeypatch.chdir(tmp_path)
    cases = graphs.Cases(0)
    assert cases.run(0)[0] == "failed"
    assert not list(tmp_path.glob("out*"))
