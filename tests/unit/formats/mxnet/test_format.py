"""MXNet's symbol JSON as a format: names of files, texts about operators and versions, and graphs
that do not fit together.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphshare.errors import BUG, Fault, InputError, OutputError, RefusedError, SelfCheckError
from graphshare.formats.model_format import Operation, list_mismatches, load_format
from graphshare.formats.mxnet.format import FORMAT
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.formats.read_back import refuse_differences
from graphshare.ir.graph import Graph, Node
from tests.symbols import document, operator, siamese, variable


def read(found: dict[str, Any]) -> Graph:
    return read_symbol(json.dumps(found).encode())


def test_parameter_files_belong_to_the_stem_of_their_name() -> None:
    names = [
        "b-symbol.json", "a-symbol.json.gz", "a-0002.params", "a-0010.npz", "a-0010.params", "a-0001.safetensors",
        "a-0003.npy", "a-12.params", "b-c-0000.params", "a.params", "c-symbol.txt",
    ]  # fmt: skip
    assert [(model.name, model.params) for model in FORMAT.list_models(names)] == [
        ("b-symbol.json", {}),
        ("a-symbol.json.gz", {1: "a-0001.safetensors", 2: "a-0002.params", 10: "a-0010.params"}),
    ]
    (model,) = FORMAT.list_models(["a-symbol.json", "a-10000.npz", "a-0009.params"])
    assert list(model.params.items()) == [(9, "a-0009.params"), (10000, "a-10000.npz")]


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ({"kernel": "(3L, 5L)", "num_filter": "8", "stride": "(2, 2)"}, ["3×5", "8", "/2"]),
        ({"stride": "(1, 1)", "pool_type": "max", "kernel": "(2, 2)"}, ["2×2", "max"]),
        ({"kernel": "(7,)", "stride": "(2L,)"}, ["7", "/2"]),
        ({"kernel": "[1, 1]", "stride": "(2, 1)"}, ["1×1"]),
        ({"kernel": "(7, 7)", "global_pool": "True", "pool_type": "avg"}, ["avg"]),
        ({"kernel": "(7, 7)", "global_pool": "1"}, []),
        ({"kernel": "(7, 7)", "global_pool": "False"}, ["7×7"]),
        ({"mode": "lstm", "act_type": "relu", "num_hidden": "10"}, ["10", "relu", "lstm"]),
        ({"mode": "", "act_type": "x" * 20, "num_hidden": "x" * 21}, ["x" * 20]),
        ({"lr_mult": "2"}, []),
    ],
)
def test_the_most_telling_attributes_describe_an_operator(
    attrs: dict[str, str], words: list[str]
) -> None:
    assert FORMAT.description.describe_operator(Node("Convolution", "a", attrs)) == words


def test_the_version_is_described_with_the_generation() -> None:
    versions = [None, 10901]
    assert [
        FORMAT.describe_version(read(document([variable("x")], [0], version=version)))
        for version in versions
    ] == [
        "2015 (StaticGraph, up to 0.8), no mxnet_version (MXNet takes it for 0.8.0)",
        "1.0 (1.0 and later), mxnet_version 10901",
    ]


@pytest.mark.parametrize(
    ("ours", "theirs", "messages"),
    [
        ({}, {}, []),
        ({}, {"is_np_shape": ["int", 0]}, []),
        ({"is_np_shape": ["int", 0]}, {}, []),
        ({"is_np_shape": ["int", 1]}, {"is_np_shape": ["int", 1]}, []),
        ({}, {"is_np_shape": ["int", 1]}, ["is_np_shape is not given in a and 1 in b"]),
        (
            {"is_np_shape": ["int", 1]},
            {"is_np_shape": ["int", 0]},
            ["is_np_shape is 1 in a and 0 in b"],
        ),
        ({"is_np_shape": [[[]], 1]}, {}, ["is_np_shape is 1 in a and not given in b"]),
        ({"x": ["int", 0]}, {}, ["x is 0 in a and not given in b"]),
        ({"x": "y"}, {"x": ["a", "b", "c"]}, ["x is 'y' in a and ('a', 'b', 'c') in b"]),
        ({"mxnet_version": ["int", 10900]}, {}, ["mxnet_version is 10900 in a and 10901 in b"]),
    ],
)
def test_graphs_of_one_file_share_their_attributes(
    ours: dict[str, Any], theirs: dict[str, Any], messages: list[str]
) -> None:
    graphs = []
    for attrs in (ours, theirs):
        found = siamese()
        found["attrs"] = {**found["attrs"], **attrs}
        graphs.append(read(found))
    faults = list(list_mismatches("a", graphs[0], "b", graphs[1]))
    assert [fault.message for fault in faults] == messages
    assert all(
        ("upgrade" in fault.hint) is fault.message.startswith("mxnet_version") for fault in faults
    )


def test_graphs_of_one_file_are_of_one_generation() -> None:
    def of(key: str) -> Graph:
        return read(
            document(
                [variable("x"), operator("relu", "r", [0], **({key: {"a": "b"}} if key else {}))],
                [1],
            )
        )

    (fault,) = list_mismatches("a", of("attr"), "b", of("attrs"))
    assert fault.message == "a is of 0.9 (NNVM, 0.9 to 0.12) and b of 1.0 (1.0 and later)"
    assert not list(list_mismatches("a", of("attr"), "b", of("attr")))
    # Without attributes nothing shows it
    assert not list(list_mismatches("a", of("attr"), "b", of("")))
    assert not list(list_mismatches("a", of(""), "b", of("attr")))


def test_new_variables_have_one_output() -> None:
    graph = read(siamese())
    node = graph.nodes[2]
    made = FORMAT.editing.make_inputs(graph, {(node, 0): "y"})
    assert list(made) == [(node, 0)]
    variables = [
        *made.values(),
        FORMAT.editing.make_input("y", "float32", (1,)),
        FORMAT.editing.make_parameter(graph, "y", "int8", ()),
    ]
    assert [(each.op, each.name, each.num_outputs) for each in variables] == [("", "y", 1)] * 3
    assert FORMAT.editing.take_outputs(node, graph.nodes[3]).name == "loss"


def test_a_format_names_those_that_have_what_it_lacks() -> None:
    faults = FORMAT.find_lacks(Operation.POOL, ["", "`pool`"], where="w")
    hint = FORMAT.alternatives[Operation.POOL]
    assert [(fault.message, fault.where, fault.hint) for fault in faults] == [
        ("a pool of weights is for ONNX models, and this is an MXNet graph", "w", hint),
        ("`pool` is for ONNX models, and this is an MXNet graph", "w", hint),
    ]
    assert not FORMAT.find_lacks(Operation.NUMPY, [""])
    FORMAT.require(Operation.NUMPY)
    with pytest.raises(RefusedError, match=r"a switch between graphs is for ONNX models"):
        FORMAT.require(Operation.SWITCH)
    onnx = load_format("onnx")
    with pytest.raises(
        RefusedError, match="training is for MXNet graphs, and this is an ONNX model"
    ):
        onnx.require(Operation.TRAINING)


@pytest.mark.parametrize(("count", "reported"), [(1, 1), (20, 20), (21, 20)])
def test_some_differences_of_a_written_file_are_reported_as_a_bug(
    count: int, reported: int
) -> None:
    with pytest.raises(SelfCheckError) as caught:
        refuse_differences(
            lambda: (Fault(f"f{i}", path="p", node="n", hint="h") for i in range(count)), where="w"
        )
    faults = caught.value.faults
    assert [fault.message for fault in faults] == [f"f{i}" for i in range(reported)]
    assert (faults[0].where, faults[0].path, faults[0].node, faults[0].hint) == ("w", "p", "n", BUG)
    refuse_differences(list, where="w")


@pytest.mark.parametrize("cause", [None, OSError(5, "I/O"), ValueError()])
def test_a_written_file_that_cannot_be_read_is_the_fault_of_the_system_or_of_the_program(
    cause: Exception | None,
) -> None:
    def find() -> list[Fault]:
        raise InputError("cannot be read") from cause

    is_of_system = isinstance(cause, OSError)
    with pytest.raises(OutputError if is_of_system else SelfCheckError) as caught:
        refuse_differences(find, where="w")
    (fault,) = caught.value.faults
    assert (fault.message, fault.where) == (
        "cannot be read" + "; nothing was written" * is_of_system,
        "w",
    )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda inner: inner["nodes"][1]["inputs"][0].__setitem__(0, -2),
        lambda inner: inner["heads"][0].__setitem__(0, -1),
        lambda inner: inner["arg_nodes"].__setitem__(0, -2),
        lambda inner: inner["nodes"][0].__setitem__("op", 5),
        lambda inner: inner["nodes"][1].__setitem__("name", ["x"]),
    ],
)
def test_ids_and_values_in_subgraphs_are_checked_as_those_outside(spoil: Any) -> None:
    def make() -> tuple[dict[str, Any], dict[str, Any]]:
        inner = document([variable("x"), operator("relu", "r", [0])], [1], version=None)
        outer = document(
            [variable("d"), operator("_foreach", "f", [0], attrs={"a": "b"}, subgraphs=[inner])],
            [1],
        )
        return outer, inner

    outer, inner = make()
    assert len(read(outer).nodes[1].subgraphs[0].nodes) == 2
    spoil(inner)
    with pytest.raises(InputError, match=r"subgraphs\[0\]"):
        read(outer)


@pytest.mark.parametrize(
    ("row_ptr", "counts"),
    [([0, 1, 3, 4], [1, 2, 1]), ([0, 1, 3], [None] * 3), ([1, 2, 4, 5], [None] * 3)],
)
@pytest.mark.parametrize("is_in_order", [True, False])
def test_counts_of_outputs_are_those_of_the_file(
    row_ptr: list[int], counts: list[int | None], is_in_order: bool
) -> None:
    attrs = {"num_outputs": "2"}
    nodes = [
        variable("x"),
        operator("SliceChannel", "s", [0], attrs=attrs),
        operator("relu", "r", [1]),
    ]
    if not is_in_order:
        nodes = [
            variable("x"),
            operator("SliceChannel", "s", [2], attrs=attrs),
            operator("relu", "r", [0]),
        ]
    found = document(nodes, [2 if is_in_order else 1])
    found["node_row_ptr"] = row_ptr
    graph = read(found)
    assert [node.num_outputs for node in graph.nodes] == counts
    assert [node.name for node in graph.nodes] == ["x", "s", "r"]
    assert json.loads(b"".join(FORMAT.encode(graph))) == found
