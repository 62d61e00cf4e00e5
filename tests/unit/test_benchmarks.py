"""The benchmarks run, in a tiny configuration; no time is asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import graphshare as gs
from benchmarks import folds, sources
from benchmarks.check import measured
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.symbol import read_symbol
from tests.surroundings import ROOT


def figures(out: Path, *arguments: str) -> dict[str, dict[str, object]]:
    """What the script writes with ``--json``, by name."""
    words = [
        sys.executable,
        str(ROOT / "benchmarks" / "run.py"),
        "--rounds",
        "0",
        "--json",
        str(out),
        *arguments,
    ]
    environment = dict(os.environ)
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert all(row["name"] in done.stdout for row in found)
    assert all(row["ours"]["seconds"] > 0 and row["other"]["peak"] > 0 for row in found)
    return {row["name"]: row for row in found}


def test_what_needs_no_oracle(tmp_path: Path) -> None:
    found = figures(
        tmp_path / "f.json",
        "--only",
        "start",
        "--only",
        "parameter-file",
        "--only",
        "large-graphs",
        "--size",
        "2",
    )
    assert list(found) == [
        "--help, against two imports",
        "--version, against two imports",
        "2 MiB of parameters, against cat",
    ]


def test_the_speed_of_check() -> None:
    speed = measured(ROOT / "fixtures", files=40, jobs=2)
    assert speed.files > 0
    assert speed.milliseconds > 0


@pytest.mark.oracle
def test_what_needs_one(tmp_path: Path, oracle_python: str) -> None:
    found = figures(
        tmp_path / "f.json", "--oracle", oracle_python, "--only", "large-graphs", "--nodes", "40"
    )
    assert list(found) == ["40 nodes"]


@pytest.mark.parametrize("nodes", [4, 40])
def test_a_chain_is_what_mxnet_would_write(tmp_path: Path, nodes: int) -> None:
    data = sources.chain(nodes, tmp_path / "chain.json").read_bytes()
    graph = read_symbol(data)
    assert len(graph.nodes) == nodes
    assert b"".join(write_symbol(graph)) == data


def test_the_speed_of_export() -> None:
    words = [sys.executable, "-m", "benchmarks.export", "--size", "2"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "cp",
        "embed",
        "external",
        "params",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what memory processes share")
@pytest.mark.large
@pytest.mark.parametrize("processes", ["1", "2"])
def test_the_memory_of_sessions(processes: str) -> None:
    pytest.importorskip("onnxruntime")
    words = [
        sys.executable,
        "-m",
        "benchmarks.shared_memory",
        "--sessions",
        "2",
        "--words",
        "5000",
        "--width",
        "64",
    ]
    done = subprocess.run(
        [*words, "--processes", processes], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[3:]]
    anonymous = {(form, options): int(size) for form, options, _, size, *_ in rows}
    assert [form for form, *_ in rows[::2]] == [
        "embedded",
        "external",
        "pooled",
        "tied",
        "handed over",
    ]
    assert {bits for _, options, *_, bits in rows if options == "default options"} == {"the same"}
    assert anonymous["tied", "disable_prepacking"] < anonymous["embedded", "disable_prepacking"] / 2


@pytest.mark.oracle
@pytest.mark.large
def test_an_engine_beside_mxnet(oracle_python: str) -> None:
    pytest.importorskip("onnxruntime")
    words = [
        sys.executable,
        "benchmarks/zoo.py",
        "--oracle",
        oracle_python,
        "--engine",
        "onnxruntime",
        "--rounds",
        "1",
    ]
    done = subprocess.run(
        [*words, "squeezenet1.1"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    row, mean = done.stdout.splitlines()[-2:]
    name, batch, *_, error = row.split()
    assert (name, batch) == ("squeezenet1.1", "1")
    assert float(error) <= 1e-5
    assert mean.startswith(
        "onnxruntime over MXNet at batch 1, geometric mean of the image networks: "
    )
    assert float(mean.split()[-1]) > 0


@pytest.mark.parametrize("make", ["make_layers", "make_moved", "make_masked"])
def test_planted_faults_are_found(make: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from benchmarks import faults

    planted = [each for seed in range(2) for each in getattr(faults, make)(seed)]
    seen, wrong = faults.judge_planted(iter(planted[:4]), 4, tmp_path)
    assert not wrong
    assert seen["faults"] == seen["found"] == seen["named"] > 0
    assert seen["rewrites"] > 0
    assert not seen["false alarms"]


def test_a_fault_that_is_not_found_is_told(tmp_path: Path) -> None:
    """Two models that compute the same stand for a fault that nothing shows."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from benchmarks import faults

    right = next(faults.make_moved(0))
    planted = [
        right._replace(kind="none"),
        right._replace(faulty=list(faults.make_moved(0))[1].faulty),
    ]
    seen, wrong = faults.judge_planted(iter(planted), 2, tmp_path)
    assert (seen["faults"], seen["found"], seen["false alarms"]) == (1, 0, 1)
    assert len(wrong) == 3


def test_faults_are_planted_in_rewrites_of_models(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from benchmarks import faults

    folder = tmp_path / "models" / "model"
    folder.mkdir(parents=True)
    for name, model in zip(("original", "onnxsim"), faults.make_fold(1).build(), strict=True):
        onnx.save(model, folder / f"{name}.onnx")
    seen, wrong = faults.judge_planted(faults.make_models(tmp_path, 1.0), 3, tmp_path)
    assert not wrong
    assert seen["faults"] == seen["named"] == 3


def test_a_model_of_the_backend_is_judged() -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from benchmarks import backend
    from tests.onnx_files.sources import WHEEL

    folder = WHEEL / "simple" / "test_expand_shape_model1"
    assert backend.judge_itself(folder / "model.onnx") == "exact"
    assert (
        backend.judge_record(folder / "model.onnx", folder / "test_data_set_0")
        == "the same judgement"
    )


def test_a_fold_is_described() -> None:
    assert folds.describe_fold(gs.load(ROOT / "fixtures" / "lenet")) == "by weights"
    assert folds.describe_fold(gs.fold(ROOT / "fixtures" / "lenet")) == "nothing to fold"
