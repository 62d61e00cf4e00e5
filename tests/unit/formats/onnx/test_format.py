"""What an ONNX model has as a format: an output that is declared, and the nodes that hold values."""

from __future__ import annotations

import onnx

from graphshare.formats.onnx.format import FORMAT
from graphshare.formats.onnx.write import encode_model
from tests.onnx_files.composed import Operator, model


def test_an_output_is_declared_and_variables_are_listed() -> None:
    graph = model(
        "g", [Operator("Relu", ("x",), ("y",))], {"x": ("float32", (2,))}, {"y": ("float32", (2,))}
    )
    declared = FORMAT.editing.declare_output(graph, "float16", (3, 4))
    read = onnx.load_from_string(b"".join(encode_model(declared).pieces()))
    assert list(read.graph.output) == [
        onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT16, [3, 4])
    ]
    assert [node.name for node in FORMAT.list_nodes(graph)] == ["x"]
