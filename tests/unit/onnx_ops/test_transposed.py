"""Tables whose transpose is another parameter: which are found, and the Gathers of columns in their place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from graphshare.files.open_source import open_source
from graphshare.formats.onnx.decode import decode_model
from graphshare.formats.onnx.parameters import index_parameters
from graphshare.formats.onnx.stored import OnnxFile
from graphshare.onnx_ops import transposed

TABLE = np.arange(12, dtype="f4").reshape(3, 4)


def find(folder: Path, *, op: str = "Gather", domain: str = "", axis: int | None = 0, slot: int = 0, twin: np.ndarray = TABLE.T,
         is_output: bool = False, is_input: bool = False, table: np.ndarray = TABLE) -> list[tuple[str, str]]:  # fmt: skip
    """Return the names of the pairs in a model whose table is used in one way."""
    inputs = ["t", "i"] if slot == 0 else ["x", "t"]
    nodes = [
        helper.make_node(op, inputs, ["y"], domain=domain),
        helper.make_node("MatMul", ["x", "w"], ["z"]),
    ]
    if axis is not None:
        nodes[0].attribute.append(helper.make_attribute("axis", axis))
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        for name in ("y", "z", *["t"] * is_output)
    ]
    given = [
        helper.make_tensor_value_info(name, kind, None)
        for name, kind in (("i", 7), ("x", 1), *[("t", 1)] * is_input)
    ]
    tensors = [
        numpy_helper.from_array(np.ascontiguousarray(each), name)
        for name, each in (("w", twin), ("t", table))
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    path = folder / "model.onnx"
    model = helper.make_model(
        helper.make_graph(nodes, "g", given, outputs, tensors), opset_imports=opsets
    )
    path.write_bytes(model.SerializeToString())
    with open_source(str(path)) as source:
        graph = decode_model(OnnxFile(source))
    return [
        (left.name, right.name)
        for left, right in transposed.find_tables(graph, index_parameters(graph))
    ]


def test_only_gathers_of_rows_make_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rows in (1, 2, 3, 1024):
        monkeypatch.setattr(transposed, "_ROWS", rows)
        assert find(tmp_path) == [("t", "w")]
    assert find(tmp_path, axis=None) == find(tmp_path, axis=-2) == [("t", "w")]
    assert find(tmp_path, axis=1) == find(tmp_path, axis=-1) == find(tmp_path, axis=-3) == []
    assert (
        find(tmp_path, op="GatherElements")
        == find(tmp_path, domain="d")
        == find(tmp_path, slot=1)
        == []
    )
    assert find(tmp_path, is_output=True) == find(tmp_path, is_input=True) == []
    cube = TABLE.reshape(3, 2, 2)
    assert find(tmp_path, table=cube, twin=cube.T) == find(tmp_path, twin=TABLE) == []
    assert find(tmp_path, twin=TABLE.T.view("i4")) == find(tmp_path, twin=TABLE.T[:, :2]) == []


@pytest.mark.parametrize("place", [(0, 0), (1, 2), (3, 2)])
def test_a_number_that_differs_in_any_block_is_seen(
    place: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = TABLE.T.copy()
    twin[place] += 1
    for rows in (1, 2, 1024):
        monkeypatch.setattr(transposed, "_ROWS", rows)
        assert find(tmp_path, twin=twin) == []
