"""What holds ``group`` and the joining of parameter files against their sources: each check on
something that is wrong.
"""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import graphshare
import graphshare.rewrite.grouping.plan as group_plan
from graphshare.errors import RefusedError, SelfCheckError, UsageError
from graphshare.files.atomic import OutputTransaction
from graphshare.files.open_source import open_source
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.formats.params.convert import stage_params
from graphshare.formats.params.format import read_index
from graphshare.formats.params.mxnet_params import FORMAT
from graphshare.ir.compare import check_isomorphic
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.rewrite import batch as batch_rewrite
from graphshare.rewrite.grouping.join import Member, join
from tests import params_bytes as build
from tests.processes import write_params
from tests.symbols import document, mxnet_text, operator, siamese, variable


def read(found: Any) -> Graph:
    return read_symbol(mxnet_text(found).encode())


def head() -> Any:
    return document([variable("x"), operator("relu", "act", [0])], [1])


def test_a_replaced_input_must_be_the_one_that_was_asked_for() -> None:
    first, second = read(siamese()), read(head())
    rewrite = graphshare.group([first, second], connect=[("conv_output", "x")]).rewrite
    assert rewrite is not None
    trunk = rewrite.branches[0].images
    x = second.nodes[0]
    check_isomorphic(rewrite, replaced={(1, x): Entry(trunk[first.nodes[2]])})
    for wrong in (Entry(trunk[first.nodes[0]]), Entry(trunk[first.nodes[2]], 1)):
        with pytest.raises(SelfCheckError, match="is not what node 'act' became"):
            check_isomorphic(rewrite, replaced={(1, x): wrong})


def test_an_input_that_was_not_replaced_is_found() -> None:
    """A node that stayed what it is although another output should feed it."""
    first, second = read(siamese()), read(head())
    rewrite = graphshare.group([first, second]).rewrite
    assert rewrite is not None
    check_isomorphic(rewrite)
    with pytest.raises(SelfCheckError, match="is not what node 'act' became"):
        check_isomorphic(rewrite, replaced={(1, second.nodes[0]): Entry(first.nodes[2])})


def _lost_head(rewrite: Any) -> Any:
    graph = msgspec.structs.replace(rewrite.graph, heads=rewrite.graph.heads[:-1])
    return msgspec.structs.replace(rewrite, graph=graph)


def _swapped_heads(rewrite: Any) -> Any:
    graph = msgspec.structs.replace(rewrite.graph, heads=rewrite.graph.heads[::-1])
    return msgspec.structs.replace(rewrite, graph=graph)


def _lost_node(rewrite: Any) -> Any:
    last = rewrite.branches[-1]
    images = dict(list(last.images.items())[1:])
    return msgspec.structs.replace(
        rewrite, branches=(*rewrite.branches[:-1], msgspec.structs.replace(last, images=images))
    )


@pytest.mark.parametrize("damage", [_lost_head, _swapped_heads, _lost_node])
def test_a_damaged_group_is_found(monkeypatch: pytest.MonkeyPatch, damage: Any) -> None:
    sound = group_plan.join
    monkeypatch.setattr(group_plan, "join", lambda *given, **more: damage(sound(*given, **more)))
    other = document([variable("y"), operator("relu", "b", [0])], [1])
    with pytest.raises(SelfCheckError):
        graphshare.group([read(siamese()), read(other)])


@pytest.mark.parametrize("damage", [_lost_head, _swapped_heads])
def test_a_damaged_batch_is_found(monkeypatch: pytest.MonkeyPatch, damage: Any) -> None:
    sound = batch_rewrite.batch
    monkeypatch.setattr(
        batch_rewrite, "batch", lambda *given, **more: damage(sound(*given, **more))
    )
    with pytest.raises(SelfCheckError):
        graphshare.duplicate(read(siamese()), ["x-"], mode="batch")


def test_groups_in_python() -> None:
    first, second = read(siamese()), read(head())
    rewrite = graphshare.group(
        [first, second], prefixes=["", "h-"], connect=[("conv", "h-x")]
    ).rewrite
    assert rewrite is not None
    assert [node.name for node in rewrite.graph.nodes] == [
        "data",
        "conv_weight",
        "conv",
        "loss",
        "h-act",
    ]
    assert rewrite.images(second, second.nodes[1]) == [("h-", rewrite.graph.nodes[-1])]
    assert rewrite.images(second, second.nodes[0]) == []
    assert all(image is node for node, image in rewrite.branches[0].images.items())
    with pytest.raises(RefusedError, match="each of them once"):
        graphshare.group([first, first])
    with pytest.raises(UsageError, match="`prefixes` has 1 value for 2 graphs"):
        graphshare.group([first, second], prefixes=["a"])


def test_parts_of_one_graph_may_share_nodes() -> None:
    """Extracts of one graph keep its node objects; in a group they are nodes of their own."""
    graph = read(
        document(
            [
                variable("x"),
                operator("relu", "", [0]),
                operator("tanh", "t", [1]),
                operator("sqrt", "s", [1]),
            ],
            [2, 3],
        )
    )
    one = graphshare.extract(graph, ["t"]).graph
    two = graphshare.extract(graph, ["s"]).graph
    rewrite = graphshare.group([one, two], share_inputs=["x"])
    assert [node.op for node in rewrite.graph.nodes] == ["", "relu", "tanh", "relu", "sqrt"]
    assert len(set(rewrite.graph.nodes)) == 5
    for index, op in ((0, "tanh"), (1, "sqrt")):
        found: Node = rewrite.graph.heads[index].node
        assert found.op == op
        assert found.inputs[0].node.inputs[0].node is rewrite.graph.nodes[0]


def test_joined_records_are_those_of_their_files(tmp_path: Path) -> None:
    a = read_index(write_params(tmp_path / "a.params", ["arg:a", "arg:b"]))
    b = read_index(write_params(tmp_path / "b.params", ["arg:c"]))
    parts = [
        (a, [(record, record.key) for record in a.records]),
        (b, [(b.records[0], "arg:x"), (b.records[0], "arg:y")]),
    ]
    out = io.BytesIO()
    FORMAT.copy(parts, out)
    path = tmp_path / "joined.params"
    path.write_bytes(out.getvalue())
    with open_source(path) as source:
        index = FORMAT.verify_copy(source, parts, verify_bytes=True)
    assert [record.key for record in index.records] == ["arg:a", "arg:b", "arg:x", "arg:y"]
    written = read_index(path)
    assert written.records[3].data_offset is not None
    data = bytearray(out.getvalue())
    data[written.records[3].data_offset] ^= 1
    path.write_bytes(data)
    with (
        open_source(path) as source,
        pytest.raises(SelfCheckError, match="differs from its source at byte"),
    ):
        FORMAT.verify_copy(source, parts, verify_bytes=True)


@pytest.mark.parametrize("suffix", [".params", ".npz", ".safetensors"])
def test_files_of_different_formats_are_joined_one_array_at_a_time(
    tmp_path: Path, suffix: str
) -> None:
    size = 4 << 20
    arrays = {f"arg:n{i}": np.full(size // 4, i, "float32") for i in range(4)}
    np.savez(tmp_path / "a.npz", **arrays)
    records = [
        build.dense((size // 4,), "float32", np.full(size // 4, 7 + i, "<f4").tobytes())
        for i in range(4)
    ]
    (tmp_path / "b.params").write_bytes(build.container(records, [f"arg:p{i}" for i in range(4)]))
    files = [read_index(tmp_path / name) for name in ("a.npz", "b.params")]
    parts = [(file, [(record, record.key) for record in file.records]) for file in files]
    target = tmp_path / f"out{suffix}"
    tracemalloc.start()
    with OutputTransaction() as stage:
        stage_params(parts, stage, target, to=suffix[1:])
        stage.commit()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * size
    written = read_index(target)
    assert [record.key for record in written.records] == [*arrays, *(f"arg:p{i}" for i in range(4))]
    from graphshare.formats.params.arrays import read_array

    assert [float(read_array(written, record)[0]) for record in written.records] == [
        0,
        1,
        2,
        3,
        7,
        8,
        9,
        10,
    ]


def test_an_output_that_is_an_input_is_not_connected_with_itself() -> None:
    through = document([variable("x"), operator("relu", "act", [0])], [0, 1])
    first, second = read(through), read(through)
    with pytest.raises(RefusedError, match="connects an input with itself"):
        graphshare.group([first, second], prefixes=["a-", "b-"], connect=[("a-x", "a-x")])
    grouped = graphshare.group(
        [first, second], prefixes=["a-", "b-"], connect=[("a-x", "b-x")]
    ).graph
    assert [node.name for node in grouped.variables()] == ["a-x"]


def test_mutations_of_a_tied_state_are_counted_over_all_parts() -> None:
    """By the highest version of each part; a state that no other part has, and an input of version
    0, stay as they are.
    """

    def part(version: int) -> Member:
        nodes = [variable("x"), variable("state"), variable("own")]
        nodes += [
            operator("op", "a", [0, (1, 0, version), (2, 0, 3)]),
            operator("op", "b", [3, (1, 0, 1), 0]),
        ]
        return Member(read(document(nodes, [4])))

    parts = [
        msgspec.structs.replace(part(version), prefix=prefix)
        for version, prefix in ((2, ""), (1, "p-"), (4, "q-"))
    ]
    states = [next(node for node in each.graph.nodes if node.name == "state") for each in parts]
    graph = join(parts, ties={(number, states[number]): (0, states[0]) for number in (2, 1)}).graph
    inputs = {
        node.name: [(entry.node.name, entry.version) for entry in node.inputs]
        for node in graph.nodes
        if node.op
    }
    assert inputs == {
        "a": [("x", 0), ("state", 2), ("own", 3)],
        "b": [("a", 0), ("state", 1), ("x", 0)],
        "p-a": [("p-x", 0), ("state", 3), ("p-own", 3)],
        "p-b": [("p-a", 0), ("state", 3), ("p-x", 0)],
        "q-a": [("q-x", 0), ("state", 7), ("q-own", 3)],
        "q-b": [("q-a", 0), ("state", 4), ("q-x", 0)],
    }


def test_a_wrong_input_is_answered_with_the_first_eight() -> None:
    nodes = [variable(name) for name in "abcdefghij"]
    many = read(
        document([*nodes, operator("add_n", "sum", range(10), attrs={"num_args": "10"})], [10])
    )
    with pytest.raises(RefusedError) as caught:
        graphshare.group([read(head()), many], connect=[("act_output", "nothing_like_them")])
    (fault,) = caught.value.faults
    assert fault.hint == "inputs are x, a, b, c, d, e, f, g"
