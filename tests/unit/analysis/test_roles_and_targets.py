"""Roles, name lists and targets."""

from __future__ import annotations

import pytest

from graphshare.analysis.branches import find_prefixes, pair_by_prefix, spread_inputs
from graphshare.analysis.name_lists import (
    NameLists,
    find_missing_outputs,
    find_odd_variables,
    list_implied_variables,
    output_name,
    resolve_targets,
)
from graphshare.analysis.roles import Kind, assign_implied_role, assign_roles
from graphshare.errors import RefusedError
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Entry, Graph, Node, NodeDetails
from tests.symbols import (
    Document,
    document,
    mxnet_text,
    old_batch_norm,
    operator,
    siamese,
    two_layers,
    variable,
)


def read(found: Document) -> Graph:
    return read_symbol(mxnet_text(found).encode())


def roles_of(graph: Graph, **more: object) -> dict[str, tuple[str, str]]:
    return {
        node.name: (role.kind.value, role.reason)
        for node, role in assign_roles(graph, **more).items()
    }  # type: ignore[arg-type]


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
    assert [said[name][0] for name in ("w", "m", "data", "v")] == [
        "input",
        "input",
        "parameter",
        "auxiliary",
    ]
    held = roles_of(graph, held={"lonely", "odd"})
    assert held["lonely"] == ("parameter", "the parameter file holds it")
    assert held["odd"][0] == "parameter"
    assert held["w"][0] == "parameter"
    assert roles_of(graph, held=set())["odd"] == ("input", "the parameter file does not hold it")


def test_lists_and_implied_variables() -> None:
    lists = NameLists(read(two_layers()))
    assert lists.arguments == [
        "data",
        "fc1_weight",
        "fc1_bias",
        "bn_gamma",
        "bn_beta",
        "fc2_weight",
        "softmax_label",
    ]
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
        return [
            output_name(entry) for entry in resolve_targets(wanted, graph.nodes, option="--target")
        ]

    assert names("s") == ["s_output0", "s_output1"]
    assert names("s_output1", "x", "fc") == ["s_output1", "x", "fc_output"]
    assert resolve_targets(["fc_output"], graph.nodes, option="--target")[0].node is graph.nodes[2]
    assert names("output") == ["output"]
    assert names("=fc", "=s_output1") == ["fc_output", "s_output1"]
    with pytest.raises(RefusedError) as caught:
        names("twin", "twni", "", "s_output2")
    assert [fault.message.split(" names")[0].split(" means")[0] for fault in caught.value.faults] == [
        "--target 'twin'", "--target 'twni'", "--target ''", "--target 's_output2'"]  # fmt: skip


def test_an_auxiliary_slot_beats_every_other_use() -> None:
    nodes = [
        variable("x"),
        variable("a"),
        variable("b"),
        operator("BatchNorm", "bn", [0, 1, 2, 1, 2]),
    ]
    roles = assign_roles(read(document(nodes, [3])))
    assert [role.kind for role in roles.values()] == [Kind.INPUT, Kind.AUXILIARY, Kind.AUXILIARY]


def test_the_use_that_prevails_may_come_first_or_last() -> None:
    dense = {"num_hidden": "2", "no_bias": "True"}
    layers = [operator("FullyConnected", "fc", [0, 1], attrs=dense), operator("relu", "r", [1])]
    for nodes in (layers, layers[::-1]):
        roles = assign_roles(read(document([variable("x"), variable("y"), *nodes], [2, 3])))
        assert [role.reason for role in roles.values()] == [
            "nothing makes it a parameter",
            "weight of FullyConnected 'fc'",
        ]


@pytest.mark.parametrize(
    ("op", "attrs", "expected"),
    [
        (
            "FullyConnected",
            {"num_hidden": "2"},
            {
                "weight": ("parameter", "weight of", False, False),
                "bias": ("parameter", "bias of", False, False),
            },
        ),
        (
            "BatchNorm",
            {},
            {
                **{name: ("parameter", f"{name} of", False, False) for name in ("gamma", "beta")},
                **dict.fromkeys(("moving_mean", "moving_var"), ("auxiliary", "", False, False)),
            },
        ),
        ("SoftmaxOutput", {}, {"label": ("input", "label of", True, False)}),
        (
            "RNN",
            {"mode": "lstm", "num_layers": "1", "state_size": "2"},
            {
                "parameters": ("parameter", "parameters of", False, False),
                "state": ("input", "state of", False, True),
                "state_cell": ("input", "state_cell of", False, True),
            },
        ),
    ],
)
def test_roles_of_variables_that_an_old_file_implies(
    op: str, attrs: dict[str, str], expected: dict[str, tuple[str, str, bool, bool]]
) -> None:
    graph = read(
        document([variable("data"), operator(op, "a", [0], attrs=attrs)], [1], version=800)
    )
    roles = {
        implied.formal: assign_implied_role(implied) for implied in list_implied_variables(graph)
    }
    assert {
        name: (role.kind.value, role.why, role.is_label, role.is_state)
        for name, role in roles.items()
    } == {
        name: (kind, f"the file implies it: {why}".rstrip(), *flags)
        for name, (kind, why, *flags) in expected.items()
    }
    assert {role.user for role in roles.values()} == {graph.nodes[1]}


CONV = document([variable("data"), operator("relu", "conv1", [0])], [1])


@pytest.mark.parametrize(
    ("expression", "wide"),
    [("re:onv", "re:.*(onv).*"), ("re:^co", "re:.*(co).*"), ("re:v1$", "re:.*(v1).*")],
)
def test_an_expression_that_matches_a_part_of_a_name_is_shown_the_whole(
    expression: str, wide: str
) -> None:
    nodes = read(CONV).nodes
    with pytest.raises(RefusedError) as caught:
        resolve_targets([expression], nodes, option="--target")
    assert (
        caught.value.faults[0].hint
        == f"an expression must match the whole name: {wide} matches wherever it occurs"
    )
    assert [output_name(entry) for entry in resolve_targets([wide], nodes, option="--target")] == [
        "conv1_output"
    ]


def test_an_expression_that_matches_nowhere_gets_no_other() -> None:
    with pytest.raises(RefusedError) as caught:
        resolve_targets(["re:pool"], read(CONV).nodes, option="--target")
    assert "whole name" not in caught.value.faults[0].hint


def test_outputs_of_an_operator_that_is_unknown_are_numbered() -> None:
    one, two = Node("Mine", "n", num_outputs=1), Node("Mine", "n", num_outputs=2)
    assert [output_name(entry) for entry in (Entry(one), Entry(one, 1))] == [
        "n_output",
        "n_output1",
    ]
    assert [output_name(entry) for entry in (Entry(two), Entry(two, 1))] == [
        "n_output0",
        "n_output1",
    ]


def test_a_variable_that_is_an_output_of_all_branches_is_paired_with_itself() -> None:
    nodes = [
        variable("y"),
        variable("x"),
        variable("b-x"),
        operator("relu", "r", [1]),
        operator("relu", "b-r", [2]),
    ]
    (pairs,) = pair_by_prefix(read(document(nodes, [0, 3, 0, 4])), ["b-"])
    names = [[output_name(entry) for entry in entries] for entries in (pairs.left, pairs.right)]
    assert [sorted(each) for each in names] == [["r_output", "y"], ["b-r_output", "y"]]
    with pytest.raises(RefusedError, match="output 'y' is listed 3 times for 2 branches"):
        pair_by_prefix(read(document(nodes, [0, 3, 0, 4, 0])), ["b-"])


def test_branches_with_other_outputs_are_refused_with_every_name() -> None:
    nodes = [
        variable("x"),
        *(operator("relu", name, [0]) for name in ("a", "b", "p-a", "p-c", "q-a", "q-b")),
    ]
    with pytest.raises(RefusedError) as caught:
        pair_by_prefix(read(document(nodes, [1, 2, 3, 4])), ["p-"])
    assert [fault.message for fault in caught.value.faults] == [
        "output 'p-c_output' has no counterpart 'c_output'",
        "output 'b_output' has no counterpart 'p-b_output'",
    ]
    with pytest.raises(RefusedError) as caught:
        pair_by_prefix(read(document(nodes, [3, 4, 5, 6])), ["p-", "q-"])
    assert [fault.message for fault in caught.value.faults] == [
        "output 'q-b_output' has no counterpart 'p-b_output'",
        "output 'p-c_output' has no counterpart 'q-c_output'",
    ]
    # A part of a prefix leaves the rest of it in the names.
    with pytest.raises(RefusedError) as caught:
        pair_by_prefix(read(document(nodes, [1, 3])), ["p"])
    assert [fault.hint for fault in caught.value.faults] == ["did you mean the prefix 'p-'?", ""]


@pytest.mark.parametrize(
    ("names", "prefix", "hint"),
    [
        (["out", "b-x-out"], "b-", "did you mean the prefix 'b-x-'?"),
        # Only an output that lacks a partner shows what is left of a prefix.
        (["out", "b-out", "b-aux-out"], "b-", ""),
        (["b-aux-out", "b-out", "out"], "b-", ""),
        (["out", "head-out", "b-out", "b-top-head-out"], "b-", "did you mean the prefix 'b-top-'?"),
        (["out", "x_bout"], "_b", ""),
    ],
)
def test_a_part_of_a_prefix_is_answered_with_the_whole(
    names: list[str], prefix: str, hint: str
) -> None:
    nodes = [variable("x"), *(operator("relu", name, [0]) for name in names)]
    with pytest.raises(RefusedError) as caught:
        pair_by_prefix(read(document(nodes, range(1, len(nodes)))), [prefix])
    assert caught.value.faults[0].hint == hint


def test_branches_of_other_outputs_or_alone_are_refused() -> None:
    nodes = [
        variable("x"),
        *(operator("relu", name, [0]) for name in ("a", "b", "p-a", "p-c", "q-a", "q-b")),
    ]
    for heads, prefixes, message in (
        ([1, 2], ["p-"], "no output begins with the prefix 'p-'"),
        ([3, 4], ["p-"], "there is only one branch"),
    ):
        with pytest.raises(RefusedError, match=message):
            pair_by_prefix(read(document(nodes, heads)), prefixes)


def test_values_and_shapes_of_an_input_hold_for_its_twins() -> None:
    graph = read(
        document(
            [
                variable("x"),
                operator("relu", "a", [0]),
                variable("p-x"),
                operator("relu", "p-a", [2]),
            ],
            [1, 3],
        )
    )
    note = "the {} of an input {} for its twins in other branches too: {}"
    assert spread_inputs(graph, {"x": 1}, {}) == (
        {"x": 1, "p-x": 1},
        {},
        [note.format("values", "hold", "p-x")],
    )
    assert spread_inputs(graph, {}, {"p-x": 2}) == (
        {},
        {"x": 2, "p-x": 2},
        [note.format("shape", "holds", "x")],
    )
    assert spread_inputs(graph, {"x": 1}, {"p-x": 2}) == ({"x": 1}, {"p-x": 2}, [])
    assert spread_inputs(graph, {}, {}) == ({}, {}, [])
    assert spread_inputs(graph, {"x": 1}, {}, targets=["a_output"]) == ({"x": 1}, {}, [])
    assert spread_inputs(graph, {"x": 1}, {}, held={"p-x"}) == ({"x": 1}, {}, [])


def test_a_prefix_without_outputs_is_refused_with_the_first_eight() -> None:
    nodes = [variable("x"), *(operator("relu", f"r{i}", [0]) for i in range(9))]
    with pytest.raises(RefusedError) as caught:
        pair_by_prefix(read(document(nodes, list(range(1, 10)))), ["p-"])
    assert (
        caught.value.faults[0].hint == f"outputs are {', '.join(f'r{i}_output' for i in range(8))}"
    )


def test_a_branch_may_end_at_an_inner_output_of_the_reference() -> None:
    nodes = [
        variable("x"),
        operator("relu", "a", [0]),
        operator("relu", "b", [1]),
        operator("relu", "p-a", [0]),
    ]
    (pairs,) = pair_by_prefix(read(document(nodes, [2, 3])), ["p-"])
    assert [[output_name(entry) for entry in entries] for entries in (pairs.left, pairs.right)] == [
        ["a_output"],
        ["p-a_output"],
    ]


@pytest.mark.parametrize(
    ("heads", "prefixes"),
    [
        ([1, 3], ["p-"]),
        ([1, 2, 3, 4], ["p-"]),
        ([0, 1, 0, 3], ["p-"]),
        ([1, 3, 5], ["p-", "q-"]),
        ([1, 2], None),
        ([1], None),
        ([], None),
        ([1, 2, 3], None),
    ],
)
def test_prefixes_of_branches_follow_from_the_names_of_outputs(
    heads: list[int], prefixes: list[str] | None
) -> None:
    nodes = [
        variable("x"),
        *(operator("relu", name, [0]) for name in ("a", "b", "p-a", "p-b", "q-a")),
    ]
    graph = read(document(nodes, [1]))
    graph = Graph(
        graph.nodes, tuple(Entry(graph.nodes[i]) for i in heads), graph.attrs, graph.source
    )
    if prefixes is not None:
        assert find_prefixes(graph) == prefixes
        return
    with pytest.raises(RefusedError, match="do not show which branches"):
        find_prefixes(graph)


def test_an_output_that_a_node_does_not_have_is_a_fault() -> None:
    x = Node("", "x")
    relu, split = (
        Node("relu", "r", inputs=(Entry(x),)),
        Node("SliceChannel", "s", {"num_outputs": "2"}, (Entry(x),)),
    )
    unknown = Node("Mine", "m", inputs=(Entry(x),))
    heads = [Entry(node, index) for node in (x, relu, split, unknown) for index in (0, 1, 2)]
    faults = find_missing_outputs(
        [Node("add_n", "sum", {"num_args": "1"}, (Entry(relu, 3),))], heads
    )
    assert [(fault.node, fault.message) for fault in faults] == [
        ("r", "relu has 1 output, and output 3 is used"),
        ("x", "a variable has 1 output, and output 1 is used"),
        ("x", "a variable has 1 output, and output 2 is used"),
        ("r", "relu has 1 output, and output 1 is used"),
        ("r", "relu has 1 output, and output 2 is used"),
        ("s", "SliceChannel has 2 outputs, and output 2 is used"),
    ]


def test_a_variable_with_inputs_or_control_dependencies_is_a_fault() -> None:
    x = Node("", "x")
    nodes = [
        x,
        Node("", "a", inputs=(Entry(x),)),
        Node("", "b", control_deps=(x,)),
        Node("relu", "r", inputs=(Entry(x),)),
    ]
    assert [fault.node for fault in find_odd_variables(nodes)] == ["a", "b"]


@pytest.mark.parametrize(("version", "names"), [(None, True), (899, True), (900, False)])
def test_files_before_0_9_imply_the_inputs_that_operators_lack(
    version: int | None, names: bool
) -> None:
    nodes = [
        variable("data"),
        operator("FullyConnected", "fc", [0], attrs={"num_hidden": "2"}),
        operator("relu", "", [1]),
    ]
    graph = read(document(nodes, [2], version=version))
    implied = [
        (each.node.name, each.slot, each.formal, each.name, each.auxiliary)
        for each in list_implied_variables(graph)
    ]
    assert implied == (
        [("fc", 1, "weight", "fc_weight", False), ("fc", 2, "bias", "fc_bias", False)]
        if names
        else []
    )


def test_several_nodes_of_one_name_are_told_apart_by_values_only_where_each_has_one() -> None:
    for stored, hint in (
        ([("a", "n"), ("b", "n")], "name a value instead: a, b"),
        ([("a", "n"), ("a", "n")], "names repeat in this graph"),
        ([("a", "n"), ("b", "")], "names repeat in this graph"),
    ):
        nodes = [
            Node("Relu", "n", details=NodeDetails("", (value,), label=label))
            for value, label in stored
        ]
        with pytest.raises(RefusedError) as caught:
            resolve_targets(["n"], nodes, option="--target")
        assert caught.value.faults[0].hint.startswith(hint)


def test_a_branch_that_ends_earlier_is_paired_with_the_inner_output() -> None:
    nodes = [
        variable("x"),
        operator("relu", "mid", [0]),
        operator("relu", "end", [1]),
        variable("b-x"),
        operator("relu", "b-mid", [3]),
    ]
    (pairs,) = pair_by_prefix(read(document(nodes, [2, 4])), ["b-"])
    assert [output_name(entry) for entry in (*pairs.left, *pairs.right)] == [
        "mid_output",
        "b-mid_output",
    ]
    # A name that two operators have could be either.
    nodes[2] = operator("relu", "mid", [1])
    nodes.insert(3, operator("relu", "end", [2]))
    for node in nodes[4:]:
        node["inputs"] = [[4, 0, 0] for _ in node["inputs"]]
    with pytest.raises(RefusedError, match="output 'b-mid_output' has no counterpart 'mid_output'"):
        pair_by_prefix(read(document(nodes, [3, 5])), ["b-"])
