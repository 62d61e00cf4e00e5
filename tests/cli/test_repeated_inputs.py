"""``export`` of graphs whose inputs, labels and outputs share names: all are renamed apart, reported, and freed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from graphshare.files.schema import find_violations
from tests.processes import done, graphshare, refused, write_json
from tests.symbols import document, operator, variable

TWINS = [
    variable("x"),
    variable("x"),
    operator("tanh", "y", [0]),
    operator("sin", "y", [1]),
    operator("cos", "y", [1]),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_json(tmp_path / "net.json", document(TWINS, [2, 3, 4]))
    return tmp_path


def list_inputs(path: Path) -> dict[str, list[Any]]:
    inputs = onnx.load(path).graph.input
    return {
        v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in inputs
    }


def test_every_rename_is_reported(folder: Path) -> None:
    run = done(graphshare("export", "net.json", "--shape", "x=2,3", "-o", "net.onnx", cwd=folder))
    lines = [line for line in run.stderr.decode().splitlines() if line.startswith("renamed")]
    assert lines == [
        "renamed: y_output -> y_output#1",
        "renamed: y_output -> y_output#2",
        "renamed: x -> x#1",
    ]
    command = ("export", "net.json", "--shape", "x=2,3", "-o", "again.onnx", "--format", "json")
    report = json.loads(done(graphshare(*command, cwd=folder)).stdout)
    assert report["renamed"] == [
        ["y_output", "y_output#1"],
        ["y_output", "y_output#2"],
        ["x", "x#1"],
    ]
    assert list(find_violations(report, "export")) == []


@pytest.mark.parametrize(
    ("options", "size"),
    [(("--shape", "x=2,3", "--dynamic-batch"), "batch"), (("--shape", "x=n:2,3"), "n")],
)
def test_inputs_of_one_name_are_freed_together(
    options: tuple[str, ...], size: str, folder: Path
) -> None:
    done(graphshare("export", "net.json", *options, "-o", "net.onnx", cwd=folder))
    assert list_inputs(folder / "net.onnx") == {"x": [size, 3], "x#1": [size, 3]}


def test_labels_of_one_name_and_several_shapes_are_left_out(tmp_path: Path) -> None:
    nodes = [variable("a"), variable("b"), variable("label"), variable("label")]
    nodes += [operator("SoftmaxOutput", "s", [0, 2]), operator("SoftmaxOutput", "s", [1, 3])]
    write_json(tmp_path / "net.json", document(nodes, [4, 5]))
    shapes = ("--shape", "a=2,3", "--shape", "b=5,7")
    assert (
        b"left out: label, label\n"
        in done(graphshare("export", "net.json", *shapes, "-o", "n.onnx", cwd=tmp_path)).stderr
    )
    done(graphshare("export", "net.json", *shapes, "--dynamic-batch", "-o", "n.onnx", cwd=tmp_path))


def test_indices_of_any_input_of_a_name_must_fit_its_dtype(tmp_path: Path) -> None:
    attrs = {"input_dim": "1000", "output_dim": "2"}
    nodes = [
        variable("x"),
        variable("w"),
        operator("Embedding", "e", [0, 1], attrs=attrs),
        variable("x"),
    ]
    write_json(tmp_path / "net.json", document([*nodes, operator("tanh", "t", [3])], [2, 4]))
    np.savez(tmp_path / "p.npz", **{"arg:w": np.ones((1000, 2), "float32")})
    command = (
        "export",
        "net.json",
        "--params",
        "p.npz",
        "--shape",
        "x=2,3",
        "-o",
        "n.onnx",
        "--input-dtype",
    )
    assert "index up to 999, and int8" in refused(graphshare(*command, "x=int8", cwd=tmp_path))
    done(graphshare(*command, "x=int32", cwd=tmp_path))
