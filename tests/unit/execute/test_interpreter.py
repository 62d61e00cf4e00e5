"""The interpreter: what lives how long, what is written over, what runs at all, and what an error says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import numpy as np
import pytest

from graphshare.errors import RefusedError
from graphshare.execute.interpreter import run_graph, run_plan
from graphshare.execute.outputs import make_profile
from graphshare.execute.plan import UnsupportedError, make_plan
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ops import registry
from graphshare.ops.kernel import Kernel, KernelError
from graphshare.ops.unification import same_dtypes, same_shapes
from tests.symbols import document, operator, two_layers, variable


def graph_of(nodes: list[dict[str, Any]], heads: Sequence[Any]) -> Graph:
    return read_symbol(json.dumps(document(nodes, heads)).encode())


def chain(length: int, op: str = "relu") -> Graph:
    return graph_of(
        [variable("data"), *(operator(op, f"n{i}", [i]) for i in range(length))], [length]
    )


def values_of(graph: Graph, **arrays: Any) -> dict[Node, Any]:
    return {node: arrays[node.name] for node in graph.variables() if node.name in arrays}


@pytest.fixture
def own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.KERNELS, "registered", {})


def test_values_are_freed_after_their_last_use() -> None:
    data = np.ones((1000, 10), "float32")
    graph = chain(12, "exp")
    run = run_plan(make_plan(graph.heads), values_of(graph, data=data), profile=True)
    assert sum(timing.bytes for timing in run.timings) == 12 * data.nbytes
    assert run.peak_bytes <= 2 * data.nbytes
    wide = graph_of(
        [variable("data"), *(operator("exp", f"n{i}", [0]) for i in range(4))], [1, 2, 3, 4]
    )
    assert run_plan(make_plan(wide.heads), values_of(wide, data=data)).peak_bytes == 4 * data.nbytes


def test_an_output_that_nobody_reads_is_freed_where_it_is_made() -> None:
    data = np.ones((4, 1000), "float32")
    nodes = [
        variable("data"),
        operator("SliceChannel", "split", [0], attrs={"num_outputs": "4"}),
        operator("exp", "e", [(1, 2, 0)]),
    ]
    graph = graph_of(nodes, [2])
    data = np.arange(4000, dtype="float32").reshape(4, 1000) / 4000
    run = run_plan(make_plan(graph.heads), values_of(graph, data=data))
    assert np.allclose(run.outputs[0], np.exp(data[:, 500:750]))


@pytest.mark.parametrize(
    "op",
    [
        "relu",
        "negative",
        "exp",
        "tanh",
        "sigmoid",
        "abs",
        "square",
        "_copy",
        "Flatten",
        "BlockGrad",
    ],
)
def test_variables_are_never_written_to(op: str) -> None:
    data = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
    before = data.copy()
    data.setflags(write=False)
    nodes = [
        variable("data"),
        operator(op, "a", [0]),
        operator("relu", "b", [1]),
        operator("elemwise_add", "c", [2, 0]),
    ]
    nodes += [
        operator("_plus_scalar", "d", [3], attrs={"scalar": "1"}),
        operator("elemwise_mul", "e", [1, 4]),
    ]
    graph = graph_of(nodes, [5])
    first = run_plan(make_plan(graph.heads), {graph.nodes[0]: data}).outputs[0]
    assert np.array_equal(data, before)
    # The same without any reuse: every node is a target, so that no buffer is ever dead.
    kept = run_plan(
        make_plan([Entry(node) for node in graph.nodes[1:]]), {graph.nodes[0]: data}
    ).outputs
    assert np.array_equal(first, kept[-1])
    assert np.array_equal(data, before)


def test_a_view_of_a_parameter_is_not_written_over() -> None:
    weight = np.array([[-1.0, 2.0], [3.0, -4.0]], "float32")
    before = weight.copy()
    nodes = [
        variable("w"),
        operator("Reshape", "flat", [0], attrs={"shape": "(-1,)"}),
        operator("relu", "r", [1]),
    ]
    graph = graph_of(nodes, [2])
    found = run_plan(make_plan(graph.heads), values_of(graph, w=weight)).outputs[0]
    assert found.tolist() == [0, 2, 3, 0]
    assert np.array_equal(weight, before)


def test_a_target_that_is_a_variable() -> None:
    data = np.ones(3, "float32")
    graph = chain(2)
    run = run_plan(
        make_plan([Entry(graph.nodes[0]), Entry(graph.nodes[2]), Entry(graph.nodes[2])]),
        {graph.nodes[0]: data},
    )
    assert run.outputs[0] is data
    assert run.outputs[1] is run.outputs[2]


def test_only_what_is_needed_runs() -> None:
    graph = read_symbol(json.dumps(two_layers()).encode())
    by_name = {node.name: node for node in graph.nodes}
    plan = make_plan([Entry(by_name["fc1"])])
    assert [node.name for node in plan.variables] == ["data", "fc1_weight", "fc1_bias"]
    seen: list[str] = []
    arrays = {
        "data": np.ones((2, 3), "float32"),
        "fc1_weight": np.ones((4, 3), "float32"),
        "fc1_bias": np.ones(4, "float32"),
    }
    run = run_plan(
        plan, values_of(graph, **arrays), watch=lambda node, outputs: seen.append(node.name)
    )
    assert seen == ["fc1"]
    assert run.outputs[0].tolist() == [[4.0] * 4] * 2
    assert run.timings == []


def test_an_error_names_node_and_shapes() -> None:
    nodes = [
        variable("data"),
        variable("w"),
        operator("FullyConnected", "fc", [0, 1], attrs={"num_hidden": "4", "no_bias": "1"}),
    ]
    graph = graph_of(nodes, [2])
    with pytest.raises(RefusedError) as caught:
        run_plan(
            make_plan(graph.heads),
            values_of(graph, data=np.ones((2, 3), "float32"), w=np.ones((4, 5), "float32")),
        )
    (fault,) = caught.value.faults
    assert fault.node == "fc"
    assert "FullyConnected cannot take data (2,3), w (4,5)" in fault.message


def test_everything_unsupported_is_listed_before_anything_runs() -> None:
    inner = document([variable("x"), operator("Inner", "i", [0])], [1])
    loop = operator("_foreach", "loop", [0], subgraphs=[inner])
    graph = graph_of(
        [variable("x"), operator("Foreign", "a", [0]), operator("Foreign", "b", [1]), loop], [2, 3]
    )
    with pytest.raises(UnsupportedError) as caught:
        make_plan(graph.heads)
    found = {(fault.node, fault.message) for fault in caught.value.faults}
    assert {
        ("a", "operator Foreign cannot be run"),
        ("b", "operator Foreign cannot be run"),
    } <= found
    assert ("i", "operator Inner cannot be run") in found


def doubled(context: Any, attrs: Any, data: Any) -> Any:
    if data.ndim != 1:
        raise KernelError("one axis is wanted")
    return data * float(attrs.get("times", "2"))


DOUBLE = Kernel("AcmeDouble", doubled, same_shapes, same_dtypes)


@pytest.mark.usefixtures("own_kernels")
def test_a_kernel_of_ones_own() -> None:
    graph = graph_of(
        [variable("data"), operator("AcmeDouble", "d", [0], attrs={"times": "3"})], [1]
    )
    values = {graph.nodes[0]: np.ones(2, "float32")}
    with pytest.raises(UnsupportedError):
        make_plan(graph.heads)
    registry.register_kernel(DOUBLE)
    assert run_plan(make_plan(graph.heads), values).outputs[0].tolist() == [3, 3]
    with pytest.raises(RefusedError, match="one axis is wanted"):
        run_plan(make_plan(graph.heads), {graph.nodes[0]: np.ones((2, 2))})


@pytest.mark.usefixtures("own_kernels")
def test_a_kernel_in_the_place_of_one() -> None:
    graph = chain(1)
    registry.register_kernel(Kernel("relu", doubled, same_shapes, same_dtypes))
    assert run_plan(make_plan(graph.heads), {graph.nodes[0]: -np.ones(2)}).outputs[0].tolist() == [
        -2,
        -2,
    ]


@pytest.mark.usefixtures("own_kernels")
def test_a_kernel_with_fewer_outputs_than_are_used_is_refused() -> None:
    registry.register_kernel(Kernel("SliceChannel", doubled, same_shapes, same_dtypes))
    split = operator("SliceChannel", "split", [0], attrs={"num_outputs": "3"})
    graph = graph_of([variable("data"), split, operator("relu", "r", [(1, 2, 0)])], [2])
    with pytest.raises(RefusedError) as caught:
        run_plan(make_plan(graph.heads), {graph.nodes[0]: np.ones(3)})
    assert [fault.message for fault in caught.value.faults] == [
        "SliceChannel has 1 output, but output 2 is used"
    ]


def test_kernels_of_other_packages_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        def load(self) -> tuple[Kernel, ...]:
            return (DOUBLE,)

    asked: list[str] = []

    def points(*, group: str) -> list[Point]:
        asked.append(group)
        return [Point()]

    monkeypatch.setattr(metadata, "entry_points", points)
    monkeypatch.setattr(registry.KERNELS, "_installed", None)  # they are looked up again
    assert registry.find_kernel("AcmeDouble") is DOUBLE
    assert registry.find_kernel("Convolution") is not None
    assert asked == ["graphshare.kernels"]


def test_a_profile_adds_up() -> None:
    graph = chain(3)
    run = run_plan(make_plan(graph.heads), {graph.nodes[0]: np.ones(5, "float32")}, profile=True)
    found = make_profile(run.timings)
    assert [node.name for node in found.nodes] == ["n0", "n1", "n2"]
    assert [(of.op, of.nodes, of.bytes) for of in found.operators] == [("relu", 3, 60)]


def test_an_output_that_the_operator_does_not_have_is_refused() -> None:
    nodes = [variable("a"), operator("relu", "r", [0]), operator("tanh", "t", [(1, 9, 0)])]
    graph = read_symbol(json.dumps(document(nodes, [2])).encode())
    with pytest.raises(RefusedError, match="relu has 1 output, and output 9 is used"):
        run_graph(graph.heads, {graph.nodes[0]: np.ones(2, "float32")})
