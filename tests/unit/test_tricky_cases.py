"""The cases that a tool of this kind gets wrong, one row each, with the test that holds it.

* 1 a variable of several consumers is renamed once: here.
* 2 two variables of one name stay two: here.
* 3 equal names of operators and variables: here.
* 4 capture by a prefix, or by another rename: here, and ``test_all_collisions_are_listed_and_nothing_is_written``.
* 5 a prefix given twice, empty, or with a colon: here.
* 6 special characters are literal: here.
* 7 unnamed nodes: here.
* 8 output names: here.
* 9 a head that is a variable, and the same head twice: here.
* 10 auxiliary states go by slot: ``test_rules``.
* 11 implied states: ``test_old_files_and_what_they_imply``.
* 12 dialects: ``test_symbol_properties``.
* 13 versions: here and ``test_versions_of_tied_states_go_on_counting``.
* 14 ``node_row_ptr``: here.
* 15 ``arg_nodes``: here.
* 16 control dependencies: here.
* 17 order and unreachable nodes: here.
* 18 subgraphs: here.
* 19 hidden attributes name arguments: here.
* 20 attributes of variables are kept in copies: here.
* 21 shapes of tied variables (``share``, later).
* 22 a tied weight beside a copied bias: ``test_tie_and_copy_are_one_list_in_their_order``.
* 23 parameter files: ``test_convert``, ``test_an_npz_under_the_name_params``,
  ``test_what_the_parameter_file_lacks_or_has_too_much_is_said``.
* 24 a tied parameter is written once: ``test_stem_in_stem_out``.
* 25 the canonical alias (``share``, later).
* 26 random operators (``verify``, later).
* 27 labels: ``test_shared_inputs_and_labels``.
* 28 casts vanish: ``upgrade`` against MXNet itself; in ``diff``, later.
* 29 no recursion, each node once: ``test_graph``.
* 30 override rules (``share``, later).
* 31 whole components (``share``, later).
* 32 targets: ``test_targets``, ``test_targets_and_cuts``.
* 33 and 34 comparing (``verify``, later).
* 35 one name for two, one key twice: ``test_maps_that_are_none`` and here.
* 36 exit codes, and no bad result on the disk: ``tests/hostile``, here.
* 37 the caller's graph stays: here.
* 38 newer versions and other attributes are kept: here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphshare.analysis.name_lists import NameLists
from graphshare.checkpoint import save as results
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.save import Outputs
from graphshare.errors import RefusedError, SelfCheckError
from graphshare.formats.mxnet import staging
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Graph
from graphshare.rewrite.add_branches import add_branches
from graphshare.rewrite.rename_nodes import plan_rename, set_names
from tests.processes import files_in
from tests.symbols import Document, document, mxnet_text, operator, siamese, two_layers, variable


def read(found: Document) -> Graph:
    return read_symbol(mxnet_text(found).encode())


def written(graph: Graph) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(b"".join(write_symbol(graph)), strict=False)
    return found


def names(graph: Graph) -> list[str]:
    return [node.name for node in graph.nodes]


DIAMOND = document(
    [
        variable("x"),
        operator("relu", "a", [0]),
        operator("tanh", "b", [0]),
        operator("elemwise_add", "c", [1, 2]),
    ],
    [3],
)


def test_1_a_variable_of_several_consumers_is_renamed_once() -> None:
    assert names(plan_rename(read(DIAMOND), prefix="p-").graph) == ["p-x", "p-a", "p-b", "p-c"]


def test_2_and_3_equal_names_stay_apart() -> None:
    nodes = [
        variable("w"),
        variable("w"),
        operator("elemwise_add", "w", [0, 1]),
        operator("relu", "w", [2]),
    ]
    found = written(add_branches(read(document(nodes, [3])), ["b-"]).graph)
    assert [node["name"] for node in found["nodes"]] == ["w"] * 4 + ["b-w"] * 4
    assert [node["inputs"] for node in found["nodes"][4:]] == [
        [],
        [],
        [[4, 0, 0], [5, 0, 0]],
        [[6, 0, 0]],
    ]


def test_4_names_that_a_plan_itself_makes() -> None:
    graph = read(
        document([variable("a"), variable("b-a"), operator("elemwise_add", "s", [0, 1])], [2])
    )
    with pytest.raises(RefusedError, match="'b-a'"):
        add_branches(graph, ["b-"])
    assert names(add_branches(graph, ["b-"], drop_original=True).graph) == ["b-a", "b-b-a", "b-s"]
    with pytest.raises(RefusedError, match="b-b-a"):
        add_branches(graph, ["c-", "b-", "b-b-"], drop_original=True)
    a, b = graph.nodes[0], graph.nodes[1]
    assert names(set_names(graph, {a: "b-a", b: "a"}).graph) == ["b-a", "a", "s"]


def test_5_and_6_prefixes_are_literal() -> None:
    for prefix in ("a:", "(.*)+", "\\1", "%s{0}", "é ", '"'):
        assert names(add_branches(read(DIAMOND), [prefix]).graph)[4:] == [
            prefix + name for name in ("x", "a", "b", "c")
        ]
    for prefixes in ([""], ["a-", "a-"], ["a\0"], ["", ""]):
        with pytest.raises(RefusedError):
            add_branches(read(DIAMOND), prefixes)


def test_7_unnamed_nodes_stay_unnamed() -> None:
    graph = read(
        document([variable(""), operator("relu", "", [0]), operator("relu", "", [1])], [2])
    )
    assert names(add_branches(graph, ["b-"]).graph) == [""] * 6
    with pytest.raises(RefusedError, match="no name would change"):
        plan_rename(graph, prefix="b-")


def test_8_and_9_heads_of_every_kind() -> None:
    nodes = [variable("x"), operator("SliceChannel", "s", [0], attrs={"num_outputs": "3"})]
    graph = add_branches(read(document(nodes, [(1, 2, 0), 0, (1, 2, 0), 1])), ["b-"]).graph
    assert NameLists(graph).outputs == [
        "s_output2",
        "x",
        "s_output2",
        "s_output0",
        "b-s_output2",
        "b-x",
        "b-s_output2",
        "b-s_output0",
    ]


def test_13_to_15_versions_counts_and_variables() -> None:
    found = written(add_branches(read(two_layers()), ["b-"]).graph)
    assert found["nodes"][21]["inputs"] == [
        [16, 0, 0],
        [17, 0, 0],
        [18, 0, 0],
        [19, 0, 1],
        [20, 0, 1],
    ]
    steps = [3 if node["op"] == "BatchNorm" else 1 for node in found["nodes"]]
    assert found["node_row_ptr"] == [sum(steps[:i]) for i in range(27)]
    assert found["arg_nodes"] == [
        i for i, node in enumerate(found["nodes"]) if node["op"] == "null"
    ]
    without = {key: value for key, value in two_layers().items() if key != "node_row_ptr"}
    assert "node_row_ptr" not in written(add_branches(read(without), ["b-"]).graph)


def test_16_and_17_control_dependencies_order_and_unreachable_nodes() -> None:
    nodes = [
        operator("relu", "late", [2]),
        variable("unused"),
        variable("x"),
        {**operator("relu", "r", [0]), "control_deps": [0, 2]},
    ]
    found = written(add_branches(read(document(nodes, [3])), ["b-"]).graph)
    assert found["nodes"][:4] == nodes
    copies = found["nodes"][4:]
    place = {node["name"]: i + 4 for i, node in enumerate(copies)}
    assert set(place) == {"b-late", "b-unused", "b-x", "b-r"}
    assert copies[place["b-r"] - 4]["control_deps"] == [place["b-late"], place["b-x"]]
    assert found["heads"] == [[3, 0, 0], [place["b-r"], 0, 0]]


def test_18_names_in_sub_graphs_stay() -> None:
    body = document([variable("x"), operator("relu", "inner", [0])], [1], version=None)
    loop = {
        **operator("_foreach", "loop", [0], attrs={"num_args": "2", "num_outputs": "1"}),
        "subgraphs": [body],
    }
    found = written(
        add_branches(read(document([variable("x"), loop], [1], version=10901)), ["b-"]).graph
    )
    assert [node["name"] for node in found["nodes"]] == ["x", "loop", "b-x", "b-loop"]
    assert found["nodes"][3]["subgraphs"] == [body]


def test_19_and_20_attributes_are_copied_as_they_are() -> None:
    attrs = {"__shape__": "(2, 3)", "__lr_mult__": "2.0", "name": "conv"}
    hidden = {"num_hidden": "2", "weight_lr_mult": "2", "ctx_group": "dev1"}
    nodes = [
        variable("x"),
        variable("w", attrs=attrs),
        variable("b"),
        operator("FullyConnected", "fc", [0, 1, 2], attrs=hidden),
    ]
    found = written(add_branches(read(document(nodes, [3], version=801)), ["b-"]).graph)
    assert [node.get("attrs") for node in found["nodes"][4:]] == [None, attrs, None, hidden]


def test_35_two_nodes_for_one_name() -> None:
    graph = read(siamese())
    with pytest.raises(RefusedError, match="would both become 'n'"):
        set_names(graph, {graph.nodes[0]: "n", graph.nodes[1]: "n"})


def test_36_a_result_that_fails_its_check_is_not_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, other = read(siamese()), read(DIAMOND)
    monkeypatch.setattr(staging, "write_symbol", lambda *_: write_symbol(other))
    with pytest.raises(SelfCheckError):
        results.write_outputs(Outputs(str(tmp_path / "out.json")), Checkpoint(graph))
    assert files_in(tmp_path) == []


def test_37_the_source_stays_as_it_was() -> None:
    graph = read(two_layers())
    before = b"".join(write_symbol(graph))
    add_branches(graph, ["b-"], shared={graph.nodes[1], graph.nodes[6]})
    plan_rename(graph, prefix="p-")
    assert b"".join(write_symbol(graph)) == before


def test_38_other_versions_and_attributes_are_kept() -> None:
    for attrs in (
        {"mxnet_version": ["int", 20000]},
        {},
        {"is_np_shape": ["int", 1], "mxnet_version": ["int", 10600]},
        {"x": ["str", "y"]},
    ):
        assert (
            written(add_branches(read({**siamese(), "attrs": attrs}), ["b-"]).graph)["attrs"]
            == attrs
        )
    bare = {key: value for key, value in siamese().items() if key != "attrs"}
    assert "attrs" not in written(add_branches(read(bare), ["b-"]).graph)
