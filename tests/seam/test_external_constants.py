"""External data of Constants: rewrites take it along, check looks for it, and comparisons read it,
as that of initializers.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper

import graphshare as gs
from tests.processes import done, in_process, refused
from tests.seam.placed import BODIES, FLOAT, PLACES, fix_input, place

ort = pytest.importorskip("onnxruntime")
DATA = np.array([9, 9, 1.5, -2.5, 9], np.float32)
"""The data file: the numbers of the tensor are the third and the fourth."""


def point_outside(tensor: TensorProto) -> TensorProto:
    """Make the tensor two floats in ``w.bin``."""
    tensor.CopyFrom(
        TensorProto(name=tensor.name, data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    )
    for key, value in (("location", "w.bin"), ("offset", "8"), ("length", "8")):
        tensor.external_data.add(key=key, value=value)
    return tensor


def add(value: str) -> NodeProto:
    return helper.make_node("Add", ["left", value], ["answer"])


def make_constant(where: str) -> ModelProto:
    constant = helper.make_node("Constant", [], ["fixed"], value=point_outside(TensorProto()))
    return place(where, [constant, add("fixed")])


def make_initializer(where: str) -> ModelProto:
    return place(where, [add("weight")], [point_outside(TensorProto(name="weight"))])


Make = Callable[[str], ModelProto]
KINDS: dict[str, Make] = {"Constant": make_constant, "initializer": make_initializer}
CASES = [("Constant", where) for where in PLACES] + [
    ("initializer", where) for where in ("graph", *BODIES)
]


def write(folder: Path, model: ModelProto, data: np.ndarray = DATA) -> Path:
    """Write a model that needs no other inputs than ``left``, and its data beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {declared.name for declared in model.graph.input}
    for name, value in (("flag", True), ("count", np.int64(2)), ("right", np.float32([0, 0]))):
        if name in names:
            fix_input(model, name, value)
    (folder / "w.bin").write_bytes(data.tobytes())
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


def compute(path: Path) -> list[Any]:
    """Return what onnxruntime computes of a model; the name of its input does not matter."""
    onnx.checker.check_model(str(path))
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    outputs: list[Any] = session.run(
        None, {node.name: np.float32([1, 2]) for node in session.get_inputs()}
    )
    return outputs


@pytest.mark.parametrize(("kind", "where"), CASES)
def test_onnxruntime_takes_the_models(kind: str, where: str, tmp_path: Path) -> None:
    assert np.isfinite(compute(write(tmp_path, KINDS[kind](where)))[0]).all()


@pytest.mark.parametrize("command", ["rename", "duplicate", "extract"])
@pytest.mark.parametrize(("kind", "where"), CASES)
def test_a_model_elsewhere_computes_the_same(
    kind: str, where: str, command: str, tmp_path: Path
) -> None:
    model = KINDS[kind](where)
    path, other = write(tmp_path / "here", model), tmp_path / "other"
    expected = compute(path)
    other.mkdir()
    words = ("--target", model.graph.output[0].name) if command == "extract" else ("--prefix", "n_")
    done(in_process(command, path, *words, "-o", other / "x.onnx"))
    shutil.rmtree(tmp_path / "here")
    outputs = compute(other / "x.onnx")
    assert len(outputs) == (2 if command == "duplicate" else 1)
    assert all(np.array_equal(output, expected[0]) for output in outputs)
    assert in_process("check", other / "x.onnx", "--select", "GS607").returncode == 0


@pytest.mark.parametrize(("kind", "where"), CASES)
def test_a_model_in_the_directory_above_finds_its_data(
    kind: str, where: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "sub", KINDS[kind](where))
    expected = compute(path)
    done(in_process("rename", path, "--prefix", "n_", "-o", tmp_path / "x.onnx", "--no-copy"))
    assert not (tmp_path / "x.onnx.data").exists()
    assert np.array_equal(compute(tmp_path / "x.onnx")[0], expected[0])


@pytest.mark.parametrize(("kind", "where"), CASES)
def test_a_copy_of_the_data_can_be_refused(kind: str, where: str, tmp_path: Path) -> None:
    path, other = write(tmp_path / "here", KINDS[kind](where)), tmp_path / "other"
    other.mkdir()
    refused(
        in_process("rename", path, "--prefix", "n_", "-o", other / "x.onnx", "--no-copy"),
        "w.bin",
        "--no-copy",
    )
    assert list(other.iterdir()) == []


@pytest.mark.parametrize(("kind", "where"), CASES)
def test_a_model_beside_its_data_computes_the_same(kind: str, where: str, tmp_path: Path) -> None:
    path = write(tmp_path, KINDS[kind](where))
    done(in_process("rename", path, "--prefix", "n_", "-o", tmp_path / "x.onnx", "--no-copy"))
    assert np.array_equal(compute(tmp_path / "x.onnx")[0], compute(path)[0])


@pytest.mark.parametrize("size", [None, 12], ids=["missing", "too short"])
@pytest.mark.parametrize(("kind", "where"), CASES)
def test_check_reports_data_that_are_not_there(
    kind: str, where: str, size: int | None, tmp_path: Path
) -> None:
    path, data = write(tmp_path, KINDS[kind](where)), tmp_path / "w.bin"
    assert in_process("check", path, "--select", "GS607").stdout == b"1 file: no findings\n"
    if size is None:
        data.unlink()
    else:
        data.write_bytes(DATA.tobytes()[:size])
    run = in_process("check", path, "--select", "GS607")
    assert run.returncode == 1, run.stdout
    assert b"error GS607" in run.stdout
    assert b"w.bin" in run.stdout
    assert (b"fixed" if kind == "Constant" else b"weight") in run.stdout


@pytest.mark.parametrize(("kind", "where"), CASES)
def test_diff_reads_the_data(kind: str, where: str, tmp_path: Path) -> None:
    left = write(tmp_path / "left", KINDS[kind](where))
    same = write(tmp_path / "same", KINDS[kind](where))
    right = write(
        tmp_path / "right", KINDS[kind](where), np.array([9, 9, 1.5, -3.5, 9], np.float32)
    )
    assert not gs.diff(left, same)
    assert in_process("diff", left, right).returncode == 1


@pytest.mark.parametrize("kind", KINDS)
def test_verify_reads_the_data_where_no_value_is_computed(kind: str, tmp_path: Path) -> None:
    paths = []
    for name, last in (("left", -2.5), ("right", -3.5)):
        model = KINDS[kind]("If")
        fix_input(model, "flag", False)
        paths.append(write(tmp_path / name, model, np.array([9, 9, 1.5, last, 9], np.float32)))
    run = in_process("compare", paths[0], paths[1])
    assert run.returncode == 1, run.stdout
    assert run.stdout.splitlines()[-1].startswith(
        b"NOT PROVED: the outputs are equal, but 1 region differs"
    ), run.stdout
    assert b"values differ, max abs 1" in run.stdout
