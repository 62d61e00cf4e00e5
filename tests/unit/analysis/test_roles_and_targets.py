"""Roles, name lists and targets."""

from __future__ import annotations

import pytest

from graphshare.analysis.branches import pair_by_prefix
from graphshare.analysis.name_lists import NameLists, list_implied_variables, output_name, resolve_targets
from graphshare.analysis.roles import Kind, assign_roles
from graphshare.errors import RefusedError
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Entry, Graph, Node
from tests.symbols import Document, document, mxnet_text, old_batch_norm, operator, siamese, two_layers, variable


def read(found: Document) -> Graph:
    return read_symbol(mxnet_text(found).encode())


def roles_of(graph: Graph, **more: object) -> dict[str, tuple[str, str]]:
    return {node.name: (role.kind.value, role.reason) for node, role in assign_roles(graph, **more).items()}  # type: ignore[arg-type]


def test_every_role_and_its_reason() -> None:
    nodes = [
        variable("data"), variable("w"), operator("FullyConnected", "fc", [0, 1], attrs={"no_bias": "True", "num_hidden": "2"}),
        variable("g"), variable("b"), variable("m"), variable("v"), operator("BatchNorm", "bn", [2, 3, 4, 5, 6]),
        variable("truth"), operator("SoftmaxOutput", "out", [7, 8]), variable("my_label"),
        variable("c", attrs={"__init__": "x"}),
        variable("scale_gamma"), variable("lonely"), variable("odd"), variable("odd_weight"), operator("MyOp", "my", [14, 15]),
        operator("broadcast_add", "s", [10, 11]), operator("broadcast_mul", "t", [17, 12]),
        variable("p"), variable("s0"), variable("c0"),
        operator("RNN", "rnn", [0, 19, 20, 21], attrs={"mode": "lstm", "num_layers": "1", "state_size": "2"}),
    ]  # fmt: skip
    graph = read(document(nodes, [9, 16, 18, 22]))
    assert roles_of(graph) == {
        "data": ("input", "nothing makes it a parameter"),
        "w": ("parameter", "weight of FullyConnected 'fc'"),
        "g": ("parameter", "gamma of BatchNorm 'bn'"),
        "b": ("parameter", "beta of BatchNorm 'bn'"),
        "m": ("auxiliary", "mutated by BatchNorm 'bn'"),
        "v": ("auxiliary", "mutated by BatchNorm 'bn'"),
        "truth": ("input", "label of SoftmaxOutput 'out'"),
        "my_label": ("input", "its name ends in label"),
        "c": ("parameter", "it has an initializer (__init__)"),
        "scale_gamma": ("parameter", "its name ends in gamma"),
        "lonely": ("input", "no operator uses it"),
        "odd": ("unknown", "only unknown operators use it"),
        "odd_weight": ("parameter", "its name ends in weight"),
        "p": ("parameter", "parameters of RNN 'rnn'"),
        "s0": ("input", "state of RNN 'rnn'"),
        "c0": ("input", "state_cell of RNN 'rnn'"),
    }
    said = roles_of(graph, as_input=["w", "m"], as_parameter=["data", "v"])
    assert [said[name][0] for name in ("w", "m", "data", "v")] == ["input", "input", "parameter", "auxiliary"]
    held = roles_of(graph, held={"lonely", "odd"})
    assert held["lonely"] == ("parameter", "the parameter file holds it")
    assert held["odd"][0] == "parameter"
    assert held["w"][0] == "parameter"
    assert roles_of(graph, held=set())["odd"] == ("input", "the parameter file does not hold it")


def test_lists_and_implied_variables() -> None:
    lists = NameLists(read(two_layers()))
    assert lists.arguments == ["data", "fc1_weight", "fc1_bias", "bn_gamma", "bn_beta", "fc2_weight", "softmax_label"]
    assert lists.auxiliary_states == ["bn_moving_mean", "bn_moving_var"]
    assert lists.outputs == ["softmax_output"]
    old = read(old_batch_norm())
    assert [(found.name, found.auxiliary) for found in list_implied_variables(old)] == [
        ("bn_moving_mean", True),
        ("bn_moving_var", True),
    ]
    assert NameLists(old).auxiliary_states == ["bn_moving_mean", "bn_moving_var"]
    assert list(list_implied_variables(read(siamese()))) == []


def test_targets() -> None:
    nodes = [variable("x"), operator("SliceChannel", "s", [0], attrs={"num_outputs": "2"}), operator("relu", "fc", [0]),
             operator("relu", "fc_output", [2]), operator("relu", "twin", [0]), operator("relu", "twin", [0]),
             operator("relu", "", [0])]  # fmt: skip
    graph = read(document(nodes, [1]))

    def names(*wanted: str) -> list[str]:
        return [output_name(entry) for entry in resolve_targets(wanted, graph.nodes, option="--target")]

    assert names("s") == ["s_output0", "s_output1"]
    assert names("s_output1", "x", "fc") == ["s_output1", "x", "fc_output"]
    assert resolve_targets(["fc_output"], graph.nodes, option="--target")[0].node is graph.nodes[2]
    assert names("output") == ["output"]
    with pytest.raises(RefusedError) as caught:
        names("twin", "twni", "", "s_output2")
    assert [fault.message.split(" names")[0].split(" means")[0] for fault in caught.value.faults] == [
        "--target 'twin'", "--target 'twni'", "--target ''", "--target 's_output2'"]  # fmt: skip


def test_an_auxiliary_slot_beats_every_other_use() -> None:
    nodes = [variable("x"), variable("a"), variable("b"), operator("BatchNorm", "bn", [0, 1, 2, 1, 2])]
    roles = assign_roles(read(document(nodes, [3])))
    assert [role.kind for role in roles.values()] == [Kind.INPUT, Kind.AUXILIARY, Kind.AUXILIARY]


CONV = document([variable("data"), operator("relu", "conv1", [0])], [1])


@pytest.mark.parametrize(
    ("expression", "wide"), [("re:onv", "re:.*(onv).*"), ("re:^co", "re:.*(co).*"), ("re:v1$", "re:.*(v1).*")]
)
def test_an_expression_that_matches_a_part_of_a_name_is_shown_the_whole(expression: str, wide: str) -> None:
    nodes = read(CONV).nodes
    with pytest.raises(RefusedError) as caught:
        resolve_targets([expression], nodes, option="--target")
    assert caught.value.faults[0].hint == f"an expression must match the whole name: {wide} matches wherever it occurs"
    assert [output_name(entry) for entry in resolve_targets([wide], nodes, option="--target")] == ["conv1_output"]


def test_an_expression_that_matches_nowhere_gets_no_other() -> None:
    with pytest.raises(RefusedError) as caught:
        resolve_targets(["re:pool"], read(CONV).nodes, option="--target")
    assert "whole name" not in caught.value.faults[0].hint


def test_outputs_of_an_operator_that_is_unknown_are_numbered() -> None:
    one, two = Node("Mine", "n", num_outputs=1), Node("Mine", "n", num_outputs=2)
    assert [output_name(entry) for entry in (Entry(one), Entry(one, 1))] == ["n_output", "n_output1"]
    assert [output_name(entry) for entry in (Entry(two), Entry(two, 1))] == ["n_output0", "n_output1"]


def test_a_variable_that_is_an_output_of_all_branches_is_paired_with_itself() -> None:
    nodes = [variable("y"), variable("x"), variable("b-x"), operator("relu", "r", [1]), operator("relu", "b-r", [2])]
    (pairs,) = pair_by_prefix(read(document(nodes, [0, 3, 0, 4])), ["b-"])
    names = [[output_name(entry) for entry in entries] for entries in (pairs.left, pairs.right)]
    assert [sorted(each) for each in names] == [["r_output", "y"], ["b-r_output", "y"]]
    with pytest.raises(RefusedError, match="output 'y' is listed 3 times for 2 branches"):
        pair_by_prefix(read(document(nodes, [0, 3, 0, 4, 0])), ["b-"])


def test_a_branch_that_ends_earlier_is_paired_with_the_inner_output() -> None:
    nodes = [
        variable("x"),
        operator("relu", "mid", [0]),
        operator("relu", "end", [1]),
        variable("b-x"),
        operator("relu", "b-mid", [3]),
    ]
    (pairs,) = pair_by_prefix(read(document(nodes, [2, 4])), ["b-"])
    assert [output_name(entry) for entry in (*pairs.left, *pairs.right)] == ["mid_output", "b-mid_output"]
    # A name that two operators have could be either.
    nodes[2] = operator("relu", "mid", [1])
    nodes.insert(3, operator("relu", "end", [2]))
    for node in nodes[4:]:
        node["inputs"] = [[4, 0, 0] for _ in node["inputs"]]
    with pytest.raises(RefusedError, match="output 'b-mid_output' has no counterpart 'mid_output'"):
        pair_by_prefix(read(document(nodes, [3, 5])), ["b-"])
