"""Small constants whose data is not what their shape and dtype say: pictures and rewrites read
them, and go on without them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from tests.processes import in_process

DATA: list[tuple[int, dict[str, Any]]] = [
    (TensorProto.FLOAT, {}),
    (TensorProto.FLOAT, {"int32_data": [1]}),
    (TensorProto.FLOAT, {"string_data": [b"abc"]}),
    (TensorProto.DOUBLE, {"float_data": [1.0]}),
    (TensorProto.FLOAT16, {"float_data": [1.0]}),
    (TensorProto.INT64, {}),
    (TensorProto.INT64, {"float_data": [1.0]}),
    (TensorProto.INT64, {"int32_data": [1, 2]}),
]


def write_model(path: Path, tensor: TensorProto, *, as_constant: bool) -> None:
    """Write a model that reshapes its input to ``tensor``, in a Constant or an initializer."""
    nodes = [helper.make_node("Reshape", ["data", tensor.name], ["out"])]
    if as_constant:
        nodes.insert(0, helper.make_node("Constant", [], [tensor.name], value=tensor))
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in ("data", "out")
    ]
    graph = helper.make_graph(
        nodes, "graph", values[:1], values[1:], [] if as_constant else [tensor]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


@pytest.mark.parametrize("as_constant", [False, True], ids=["initializer", "Constant"])
@pytest.mark.parametrize("dims", [[], [2], [3]], ids=str)
@pytest.mark.parametrize(("code", "fields"), DATA)
def test_data_that_does_not_fit_is_no_bug(
    code: int, fields: dict[str, Any], dims: list[int], as_constant: bool, tmp_path: Path
) -> None:
    tensor = TensorProto(name="shape", data_type=code, dims=dims)
    for field, values in fields.items():
        getattr(tensor, field).extend(values)
    write_model(tmp_path / "model.onnx", tensor, as_constant=as_constant)
    commands = (
        ("draw", "model.onnx", "-o", "model.html"),
        ("reshape", "model.onnx", "--dynamic-batch", "--no-verify", "-o", "free.onnx"),
        ("diff", "model.onnx", "model.onnx", "--format", "html"),
    )
    for command in commands:
        run = in_process(*command, cwd=tmp_path)
        assert run.returncode in (0, 2), command
        assert b"bug in graphshare" not in run.stderr, (command, run.stderr)
