"""Sizes that the caller chooses: what follows from several translations, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from graphshare.analysis.free_sizes import Symbol
from graphshare.api.export import export
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import RefusedError
from graphshare.export_onnx.dynamic import Variant, generalize
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.formats.onnx.stored import find_stored
from graphshare.formats.onnx.types import input_types, output_types
from graphshare.formats.onnx.write import encode_model
from graphshare.ir.graph import Graph
from graphshare.ir.onnx import AttributeValue, Tensor
from graphshare.ir.walk import list_output_names
from tests.corpus.test_export import seeded_model
from tests.onnx_files.composed import Operator, body, model

N = Symbol("n", "x", 0)


def row(values: list[int]) -> Tensor:
    return Tensor("int64", (len(values),), np.array(values, "<i8").tobytes())


def variant(
    size: int, values: list[int], op_type: str = "Reshape", **attributes: AttributeValue
) -> Variant:
    nodes = [Operator(op_type, ("x", "c"), ("y",), attributes, "node")]
    inputs, outputs = {"x": ("float32", (size, 4))}, {"y": ("float32", (2 * size, 2))}
    return Variant(model("g", nodes, inputs, outputs, {"c": row(values)}), {"n": size})


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes if node.op]


def constants(graph: Graph) -> dict[str, list[int]]:
    found = {}
    for node in graph.variables():
        stored = find_stored(node.details)
        if stored.tensor is not None and stored.place is not None:
            content = stored.tensor.read()[stored.place.start : stored.place.end]
            found[node.name] = np.frombuffer(content, "<i8").tolist()
    return found


def test_a_reshape_with_one_size_that_grows_gets_minus_one() -> None:
    graph = generalize([variant(size, [2 * size, 2]) for size in (2, 3, 5)], [N])
    assert constants(graph) == {"node/shape": [-1, 2]}
    assert input_types(graph)["x"].shape == ("n", 4)
    assert output_types(graph)["y"].shape == ("2*n", 2)


def test_other_rows_are_computed_from_the_shape_of_the_input() -> None:
    graph = generalize([variant(size, [size, 3, size + 1], "Expand") for size in (2, 3, 5)], [N])
    assert operators(graph) == ["Shape", "Gather", "Mul", "Add", "Expand"]
    found = constants(graph)
    assert found["node/n/factor"] == [1, 0, 1]
    assert found["node/fixed"] == [0, 3, 1]


@pytest.mark.parametrize("row", [lambda n: [n * n, 2], lambda n: [2, n // 2], lambda n: [4, 1 + n]])
def test_one_size_of_a_reshape_may_depend_on_the_sizes_in_any_way(
    row: Callable[[int], list[int]],
) -> None:
    graph = generalize([variant(size, row(size)) for size in (2, 3, 5)], [N])
    assert [-1 if size != row(3)[i] else size for i, size in enumerate(row(5))] == constants(graph)[
        "node/shape"
    ]


def counted(size: int, shape: tuple[int, ...], dtype: str = "int64", first: int = 0) -> Variant:
    """A sum of ``x`` and numbers that count up."""
    kind = (dtype, (size, 4))
    places = np.arange(first, first + int(np.prod(shape)), dtype=dtype)
    nodes = [Operator("Add", ("x", "c"), ("y",), {}, "node")]
    graph = model(
        "g", nodes, {"x": kind}, {"y": kind}, {"c": Tensor(dtype, shape, places.tobytes())}
    )
    return Variant(graph, {"n": size})


@pytest.mark.parametrize("dtype", ["int64", "float32", "float16", "int32", "uint8"])
@pytest.mark.parametrize("axis", [0, 1])
def test_numbers_that_count_up_are_computed(axis: int, dtype: str) -> None:
    graph = generalize([counted(size, (1,) * axis + (size, 1), dtype) for size in (2, 3, 5)], [N])
    assert operators(graph)[-1] == "Add"
    assert operators(graph).count("Range") == 1
    evaluator = ReferenceEvaluator(onnx.load_from_string(b"".join(encode_model(graph).pieces())))
    for size in (1, 7):
        (got,) = evaluator.run(None, {"x": np.zeros((size, 4), dtype)})
        assert got.dtype == dtype
        np.testing.assert_array_equal(got.ravel()[::4], np.arange(size))


@pytest.mark.parametrize(
    "variants",
    [
        [counted(size, (size, 1), first=1) for size in (2, 3, 5)],
        [counted(size, (size * size, 1)) for size in (2, 3, 5)],
        [counted(size, (size, 4)) for size in (2, 3, 5)],
        [counted(size, (size, 1) if size < 5 else (1, size)) for size in (2, 3, 5)],
    ],
    ids=["from 1", "as many as no size says", "in two axes", "along another axis"],
)
def test_other_constants_are_refused_by_the_node_that_owns_them(variants: list[Variant]) -> None:
    with pytest.raises(
        RefusedError, match="Add has a constant that depends on the sizes"
    ) as caught:
        generalize(variants, [N], {"node": "the MXNet node"})
    assert [fault.node for fault in caught.value.faults] == ["the MXNet node"]


def test_what_is_equal_for_all_sizes_stays() -> None:
    graph = generalize([variant(size, [-1, 2]) for size in (2, 3, 5)], [N])
    assert operators(graph) == ["Reshape"]
    assert constants(graph) == {"c": [-1, 2]}


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        (
            [variant(size, [size * size, 2], "Expand") for size in (2, 3, 5)],
            "has a constant that depends on the sizes",
        ),
        (
            [variant(size, [1], "Op", axis=size) for size in (2, 3, 5)],
            "has attributes that depend on the sizes",
        ),
        (
            [variant(size, [1], "Op" if size < 5 else "Other") for size in (2, 3, 5)],
            "differs between sizes",
        ),
    ],
)
def test_what_depends_on_sizes_otherwise_is_refused(variants: list[Variant], message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        generalize(variants, [N])


@pytest.mark.parametrize(
    ("ops", "first"),
    [(("Neg", "Abs"), "n0"), (("Relu", "Abs"), "n1"), (("Relu", "Relu", "Abs"), "n2")],
)
def test_different_nodes_are_refused_by_the_first(ops: tuple[str, ...], first: str) -> None:
    def chain(size: int, row: tuple[str, ...]) -> Variant:
        kind, names = ("float32", (size, 4)), ["x", *(f"v{number}" for number in range(len(row)))]
        nodes = [
            Operator(op, (names[i],), (names[i + 1],), {}, f"n{i}") for i, op in enumerate(row)
        ]
        return Variant(model("g", nodes, {"x": kind}, {names[-1]: kind}, {}), {"n": size})

    with pytest.raises(
        RefusedError, match="on the graph has different nodes for different sizes"
    ) as caught:
        generalize(
            [chain(2, ("Relu", "Relu")[: len(ops) - 1]), chain(3, ops), chain(5, ops)],
            [N],
            {first: "the MXNet node"},
        )
    assert [fault.node for fault in caught.value.faults] == ["the MXNet node"]


def looped(size: int, values: list[int], op_type: str = "Reshape") -> Variant:
    """A loop whose body reshapes its state by a constant of the graph around it."""
    kind = ("float32", (size, 4))
    step = body(
        "body",
        [Operator(op_type, ("state", "c"), ("reshaped",), label="inner")],
        {"reshaped": kind},
        {"state": kind},
    )
    nodes = [Operator("Loop", ("trips", "", "x"), ("y",), {"body": step}, "loop")]
    trips = Tensor("int64", (), np.array(3, "<i8").tobytes())
    return Variant(
        model("g", nodes, {"x": kind}, {"y": kind}, {"c": row(values), "trips": trips}), {"n": size}
    )


def test_a_body_has_the_sizes_of_the_graph_around_it() -> None:
    graph = generalize([looped(size, [size, 4]) for size in (2, 3, 5)], [N])
    loop = graph.nodes[-1]
    (inner,) = loop.subgraphs
    assert input_types(inner)["state"].shape == output_types(inner)["reshaped"].shape == ("n", 4)
    assert list_output_names(inner.nodes[-1].inputs[0].node) == ("state",)
    assert inner.nodes[-1].inputs[1].node is inner.captures[0]
    assert list_output_names(loop.inputs[-1].node) == ("inner/shape",)
    assert constants(graph).keys() == {"inner/shape", "trips"}


def test_constants_that_only_bodies_read_stay() -> None:
    graph = generalize([looped(size, [-1, 4]) for size in (2, 3, 5)], [N])
    assert constants(graph).keys() == {"c", "trips"}


def test_what_depends_on_sizes_otherwise_is_refused_in_bodies_too() -> None:
    with pytest.raises(RefusedError, match="has a constant that depends on the sizes") as caught:
        generalize([looped(size, [size * size, 4], "Expand") for size in (2, 3, 5)], [N])
    assert [fault.node for fault in caught.value.faults] == ["inner"]


@pytest.mark.corpus
@pytest.mark.parametrize("stem", ["nlp_bert_small", "nlp_textcnn"])
def test_batch_and_length_of_a_text_can_stay_open(stem: str, corpus: Path) -> None:
    source, feeds = seeded_model(corpus, stem)
    sizes = {name: ("batch", "length")[: x.ndim] for name, x in feeds.items()}
    report = export(source, feeds=feeds, as_input=tuple(feeds), shapes=sizes).report
    assert report.proof
    assert report.inputs == sizes
    assert all(shape[0] == "batch" for shape in report.outputs.values())


def test_a_refusal_names_the_node_of_the_graph() -> None:
    data = {"op": "null", "name": "data", "inputs": []}
    like = {
        "op": "_contrib_arange_like",
        "name": "half",
        "attrs": {"step": "0.5", "axis": "0"},
        "inputs": [[0, 0, 0]],
    }
    chosen = {"op": "one_hot", "name": "chosen", "attrs": {"depth": "3"}, "inputs": [[1, 0, 0]]}
    same = {"op": "relu", "name": "same", "inputs": [[0, 0, 0]]}
    graph = json.dumps(
        {"nodes": [data, like, chosen, same], "arg_nodes": [0], "heads": [[2, 0, 0], [3, 0, 0]]}
    )
    with pytest.raises(
        RefusedError, match="Cast has a constant that depends on the sizes"
    ) as caught:
        export(Checkpoint(read_symbol(graph.encode())), shapes={"data": ("n:4",)})
    assert [fault.node for fault in caught.value.faults] == ["chosen"]
