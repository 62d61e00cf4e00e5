"""Sizes that the caller chooses: what follows from several translations, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from graphshare.errors import RefusedError
from graphshare.export_onnx.dynamic import Symbol, Variant, generalize
from graphshare.ir.onnx import AttributeValue, Bytes, OnnxGraph, OnnxNode, Tensor, ValueInfo

N = Symbol("n", "x", 0)


def row(name: str, values: list[int]) -> Tensor:
    return Tensor(name, "int64", (len(values),), Bytes(np.array(values, "<i8").tobytes()))


def variant(size: int, values: list[int], op_type: str = "Reshape", **attributes: AttributeValue) -> Variant:
    nodes = (OnnxNode(op_type, ("x", "c"), ("y",), attributes, name="node"),)
    shape = (ValueInfo("x", "float32", (size, 4)),)
    graph = OnnxGraph("g", nodes, shape, (ValueInfo("y", "float32", (2 * size, 2)),), (row("c", values),))
    return Variant(graph, {"n": size})


def constants(graph: OnnxGraph) -> dict[str, list[int]]:
    return {t.name: np.frombuffer(t.data.content, "<i8").tolist() for t in graph.initializers if isinstance(t.data, Bytes)}


def test_a_reshape_with_one_size_that_grows_gets_minus_one() -> None:
    graph = generalize([variant(size, [2 * size, 2]) for size in (2, 3, 5)], [N])
    assert constants(graph) == {"node/shape": [-1, 2]}
    assert graph.inputs[0].shape == ("n", 4)
    assert graph.outputs[0].shape == ("2*n", 2)


def test_other_rows_are_computed_from_the_shape_of_the_input() -> None:
    graph = generalize([variant(size, [size, 3, size + 1], "Expand") for size in (2, 3, 5)], [N])
    assert [node.op_type for node in graph.nodes] == ["Shape", "Gather", "Mul", "Add", "Expand"]
    found = constants(graph)
    assert found["node/n/factor"] == [1, 0, 1]
    assert found["node/fixed"] == [0, 3, 1]


def test_what_is_equal_for_all_sizes_stays() -> None:
    graph = generalize([variant(size, [-1, 2]) for size in (2, 3, 5)], [N])
    assert [node.op_type for node in graph.nodes] == ["Reshape"]
    assert constants(graph) == {"c": [-1, 2]}


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        ([variant(size, [size * size, 2], "Expand") for size in (2, 3, 5)], "has a constant that depends on the sizes"),
        ([variant(size, [1], "Op", axis=size) for size in (2, 3, 5)], "has attributes that depend on the sizes"),
        ([variant(size, [1], "Op" if size < 5 else "Other") for size in (2, 3, 5)], "is another node for other sizes"),
    ],
)
def test_what_depends_on_sizes_otherwise_is_refused(variants: list[Variant], message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        generalize(variants, [N])


def looped(size: int, values: list[int]) -> Variant:
    """A loop whose body reshapes its state by a constant of the graph around it."""
    state, result = (ValueInfo(name, "float32", (size, 4)) for name in ("state", "reshaped"))
    body = OnnxGraph("body", (OnnxNode("Reshape", ("state", "c"), ("reshaped",), name="inner"),), (state,), (result,))
    nodes = (OnnxNode("Loop", ("trips", "", "x"), ("y",), {"body": body}, name="loop"),)
    shape = (ValueInfo("x", "float32", (size, 4)),)
    trips = Tensor("trips", "int64", (), Bytes(np.array(3, "<i8").tobytes()))
    return Variant(OnnxGraph("g", nodes, shape, (), (row("c", values), trips)), {"n": size})


def test_a_body_has_the_sizes_of_the_graph_around_it() -> None:
    graph = generalize([looped(size, [size, 4]) for size in (2, 3, 5)], [N])
    (body,) = graph.nodes[-1].bodies()
    assert body.inputs[0].shape == body.outputs[0].shape == ("n", 4)
    assert body.nodes[0].inputs == ("state", "inner/shape")
    assert {tensor.name for tensor in graph.initializers} == {"inner/shape", "trips"}


def test_constants_that_only_bodies_read_stay() -> None:
    graph = generalize([looped(size, [-1, 4]) for size in (2, 3, 5)], [N])
    assert {tensor.name for tensor in graph.initializers} == {"c", "trips"}


def test_what_depends_on_sizes_otherwise_is_refused_in_bodies_too() -> None:
    with pytest.raises(RefusedError, match="has a constant that depends on the sizes") as caught:
        generalize([looped(size, [size * size, 4]) for size in (2, 3, 5)], [N])
    assert [fault.node for fault in caught.value.faults] == ["inner"]
