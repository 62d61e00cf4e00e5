"""Operators that compute rows of integers from sizes: which are made, with which constants."""

from __future__ import annotations

import struct

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from graphshare.formats.onnx.compose import ValueScope, declare_outputs, make_input, make_source
from graphshare.formats.onnx.write import encode_model
from graphshare.ir.graph import Graph
from graphshare.onnx_ops.size_nodes import SizeNodes, make_row
from graphshare.text.names import TakenNames


@pytest.mark.parametrize(("dtype", "letter"), [("int64", "q"), ("int32", "i")])
def test_rows_of_integers(dtype: str, letter: str) -> None:
    for values, shape in (([1, -2], (2,)), (-7, ()), ([], (0,))):
        row = make_row(values, dtype)
        numbers = values if isinstance(values, list) else [values]
        content = struct.pack(f"<{len(numbers)}{letter}", *numbers)
        assert (row.dtype, row.shape, row.content) == (dtype, shape, content)


def test_a_row_is_computed_from_sizes() -> None:
    scope = ValueScope()
    inputs = [
        scope.define(make_input("x", "float32", ("n", 4))),
        scope.define(make_input("z", "float32", (2, "t"))),
    ]
    sizes = SizeNodes({"n": ("x", 0), "t": ("z", 1)}, TakenNames(["x", "z"]).take, scope)
    rows = [
        sizes.compute("first", [3, 0, 0], {"n": [0, 2, 0], "t": [0, 0, 5]}),
        sizes.compute("second", [0, 7], {"n": [1, 0], "t": [0, 0]}),
        sizes.compute("third", [8], {}),
    ]
    nodes = sizes.take_nodes()
    assert sizes.take_nodes() == []
    ops = [node.op for node in nodes]
    # The size of n is found once.
    assert (ops.count("Shape"), ops.count("Gather"), ops.count("Mul"), ops.count("Add")) == (
        2,
        2,
        3,
        3,
    )
    lengths = (3, 2, 1)
    outputs = [
        (scope.find(row), "int64", (length,)) for row, length in zip(rows, lengths, strict=True)
    ]
    declared, heads = declare_outputs([*inputs, *nodes], outputs)
    graph = Graph(declared, heads, source=make_source("g", {"": 17}, 8))
    model = onnx.load_from_string(b"".join(encode_model(graph).pieces()))
    onnx.checker.check_model(model, full_check=True)
    found = ReferenceEvaluator(model).run(
        None, {"x": np.zeros((6, 4), "f4"), "z": np.zeros((2, 11), "f4")}
    )
    assert [np.asarray(row).tolist() for row in found] == [[3, 12, 55], [6, 7], [8]]
