"""Where a kernel fails, an attribute that cannot be computed with is named; all else is a bug of this package."""

from __future__ import annotations

import json

import pytest

from graphshare.errors import BugError, RefusedError
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Node
from graphshare.ops.bodies import NodeBodies
from graphshare.ops.kernel import KernelError
from graphshare.ops.node_errors import KernelCall, explain_failure, find_faults
from graphshare.ops.registry import find_kernel, lookup
from tests.symbols import document, operator, variable


@pytest.mark.parametrize(
    ("op", "attrs", "words"),
    [
        ("slice", {"begin": "(None, 1)", "end": "(2, 2)"}, "begin is '(None, 1)'"),
        ("slice", {"begin": "(0, 1)", "end": "(2, None)"}, "end is '(2, None)'"),
        ("slice", {"begin": "(0, 1)", "end": "(2, 2)"}, None),  # step is None, and was not read
        ("tile", {"reps": "None"}, "reps is 'None'"),
        ("LeakyReLU", {"slope": "nan"}, "slope is 'nan'"),
        ("LeakyReLU", {"slope": "-inf"}, "slope is '-inf'"),
        ("LeakyReLU", {"slope": "0.5", "act_type": "leaky"}, None),
        ("softmax", {"temperature": "None"}, None),
        ("sum", {"axis": "None"}, None),
    ],
)
def test_an_attribute_that_cannot_be_used_is_named(
    op: str, attrs: dict[str, str], words: str | None
) -> None:
    graph = read_symbol(
        json.dumps(document([variable("x"), operator(op, "y", [0], attrs=attrs)], [1])).encode()
    )
    signature, kernel = lookup(op), find_kernel(op)
    assert signature is not None
    assert kernel is not None
    values, faults = signature.parse(attrs)
    assert not faults
    error = explain_failure(
        KernelCall(graph.nodes[1], kernel, values, [(3, 4)], ["float32"]),
        "kernel",
        ValueError("odd"),
    )
    assert isinstance(error, BugError if words is None else RefusedError)
    assert (words or "the kernel of") in str(error)


def test_a_subgraph_that_is_missing_is_counted() -> None:
    bodies = NodeBodies(Node("_foreach", "loop"), lambda *arguments: ([], []))
    with pytest.raises(KernelError, match="the node has 0 subgraphs, expected at least 2"):
        bodies.shapes(1, [], [])


@pytest.mark.parametrize(
    ("op", "attrs", "count", "message"),
    [
        (
            "Convolution",
            {"kernel": "(1,)", "num_filter": "1"},
            1,
            "Convolution has 1 input, expected 3 (data, weight, bias)",
        ),
        ("_ones", {"shape": "(1,)"}, 1, "_ones has 1 input, expected 0 (none)"),
    ],
)
def test_a_wrong_number_of_inputs_is_named(
    op: str, attrs: dict[str, str], count: int, message: str
) -> None:
    nodes = [
        *(variable(f"x{i}") for i in range(count)),
        operator(op, "y", range(count), attrs=attrs),
    ]
    graph = read_symbol(json.dumps(document(nodes, [count])).encode())
    faults = find_faults(graph.nodes[-1])
    assert [(fault.node, fault.message) for fault in faults] == [("y", message)]


def test_a_bug_is_reported_with_dtypes_and_shapes() -> None:
    nodes = [variable("x"), variable("z"), operator("elemwise_add", "y", [0, 1])]
    node, kernel = (
        read_symbol(json.dumps(document(nodes, [2])).encode()).nodes[-1],
        find_kernel("elemwise_add"),
    )
    assert kernel is not None
    error = explain_failure(
        KernelCall(node, kernel, {}, [(2,), (2,)], ["float32", None]), "kernel", ValueError("odd")
    )
    assert isinstance(error, BugError)
    assert "failed on x float32 (2), z ? (2): ValueError: odd" in str(error)
