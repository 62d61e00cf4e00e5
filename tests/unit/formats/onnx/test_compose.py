"""The encoder against the onnx package, which reads what was written and finds it as it was meant."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from graphshare.formats.onnx.messages import encode_tensor
from graphshare.formats.onnx.protobuf import Message, encode_varint, pack_float
from graphshare.formats.onnx.write import encode_model
from graphshare.ir.graph import Graph, Node
from graphshare.ir.onnx import DTYPE_CODES, AttributeValue, Float, Tensor
from tests.onnx_files.composed import Operator, body, model


def model_of(graph: Graph) -> onnx.ModelProto:
    return onnx.load_from_string(b"".join(encode_model(graph, place_outside).pieces()))


def place_outside(node: Node, name: str) -> Message | None:
    return encode_tensor(name, "uint8", (4,), ("dir/file.params", 70, 74)) if name == "o" else None


def test_a_model_reads_back_as_it_was_meant() -> None:
    values: dict[str, AttributeValue] = {
        "i": -3,
        "f": 0.5,
        "s": "text",
        "ints": (1, -2, 1 << 40),
        "none": (),
        "floats": Float((1.0, 2.5)),
        "strings": ("a", ""),
        "flag": True,
        "t": Tensor("int64", (2,), np.array([1, 2], "<i8").tobytes()),
        "g": body("body", [Operator("Neg", ("x",), ("b",), label="n")], {"b": ("float32", (2,))}),
    }
    operator = Operator("Op", ("x", "", "w", "o"), ("z",), values, "node", "own")
    graph = model(
        "g",
        [operator],
        {"x": ("float16", (1, "n")), "s": ("bool", ())},
        {"z": ("float16", ("n",))},
        {"w": Tensor("float32", (2, 3), np.arange(6, dtype="<f4").tobytes()), "o": Tensor("uint8", (4,), None)},
        opsets={"": 17, "own": 1},
        version="1",
        metadata={"key": "value", "é": ""},
    )
    read = model_of(graph)
    assert (read.ir_version, read.producer_name, read.producer_version) == (8, "graphshare", "1")
    assert {opset.domain: opset.version for opset in read.opset_import} == {"": 17, "own": 1}
    assert {entry.key: entry.value for entry in read.metadata_props} == {"key": "value", "é": ""}
    (found,) = read.graph.node
    assert (found.op_type, found.name, found.domain) == ("Op", "node", "own")
    assert list(found.input) == ["x", "", "w", "o"]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in found.attribute}
    assert {k: attributes[k] for k in ("i", "f", "s", "flag")} == {"i": -3, "f": 0.5, "s": b"text", "flag": 1}
    assert list(attributes["ints"]) == [1, -2, 1 << 40]
    assert list(attributes["none"]) == []
    assert list(attributes["floats"]) == [1.0, 2.5]
    assert list(attributes["strings"]) == [b"a", b""]
    assert numpy_helper.to_array(attributes["t"]).tolist() == [1, 2]
    assert attributes["g"].node[0].op_type == "Neg"
    assert list(attributes["g"].node[0].input) == ["x"]
    first, second = read.graph.initializer
    assert numpy_helper.to_array(first).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert {e.key: e.value for e in second.external_data} == {"location": "dir/file.params", "offset": "70", "length": "4"}
    x, scalar = (value.type.tensor_type for value in read.graph.input)
    assert (x.elem_type, x.shape.dim[0].dim_value, x.shape.dim[1].dim_param) == (10, 1, "n")
    assert scalar.HasField("shape")
    assert not scalar.shape.dim


def test_an_empty_shape_is_a_shape() -> None:
    read = model_of(model("g", [], {"s": ("float32", ())}, {}))
    assert read.graph.input[0].type.tensor_type.HasField("shape")


@pytest.mark.parametrize("dtype", DTYPE_CODES)
def test_the_codes_of_dtypes_are_those_of_onnx(dtype: str) -> None:
    names = {"float32": "FLOAT", "float64": "DOUBLE"}
    assert onnx.TensorProto.DataType.Value(names.get(dtype, dtype.upper())) == DTYPE_CODES[dtype]


def test_numbers() -> None:
    assert encode_varint(0) == b"\0"
    assert encode_varint(300) == b"\xac\x02"
    assert pack_float(1e39) == np.float32(np.inf).tobytes()
    assert pack_float(-1e39) == np.float32(-np.inf).tobytes()


def test_lone_surrogates_are_written_in_a_readable_form() -> None:
    assert model_of(model("a\udc80", [], {}, {})).graph.name == "a\\udc80"
