"""Several variables that become one, and one that becomes several."""

from __future__ import annotations

import pytest

from graphshare.errors import RefusedError
from graphshare.ir.graph import Graph
from graphshare.rewrite.tie import Tied, Ties, plan_untie, tie, untie
from tests.symbols import document, operator, variable
from tests.unit.rewrite.graphs import named, read, wiring
from tests.validate import validate


def twins() -> Graph:
    """Two dense layers on weights of their own; the second weight comes first in the file."""
    dense = {"attrs": {"no_bias": "True", "num_hidden": "2"}}
    nodes = [
        variable("b_weight"),
        variable("x"),
        variable("a_weight"),
        operator("FullyConnected", "a", [1, 2], **dense),
        operator("FullyConnected", "b", [3, 0], **dense),
    ]
    return read(document(nodes, [4]))


def test_a_tied_variable_is_the_kept_one_where_the_first_of_them_stood() -> None:
    graph = twins()
    kept, tied = named(graph, "a_weight"), named(graph, "b_weight")
    rewrite = tie(graph, {tied: kept}, {})
    assert wiring(rewrite.graph) == {
        "a_weight": [],
        "x": [],
        "a": ["x", "a_weight"],
        "b": ["a", "a_weight"],
    }
    assert rewrite.branches[0].images[tied] is rewrite.branches[0].images[kept] is kept
    assert named(rewrite.graph, "a") is named(graph, "a")
    assert validate(rewrite.graph) == []


def test_a_tie_may_rename_what_stays() -> None:
    graph = twins()
    kept, tied = named(graph, "a_weight"), named(graph, "b_weight")
    rewrite = tie(graph, {tied: kept}, {kept: "w", named(graph, "b"): "last"})
    assert wiring(rewrite.graph)["last"] == ["a", "w"]


def test_mutations_of_tied_states_are_counted_on() -> None:
    nodes = [
        variable("x"),
        variable("m"),
        variable("n"),
        operator("op", "a", [0, (1, 0, 2)]),
        operator("op", "b", [3, (2, 0, 1)]),
    ]
    graph = read(document(nodes, [4]))
    rewrite = tie(graph, {named(graph, "n"): named(graph, "m")}, {})
    assert [named(rewrite.graph, name).inputs[1].version for name in "ab"] == [2, 3]


def test_untying_undoes_a_tie() -> None:
    graph = twins()
    one = tie(graph, {named(graph, "b_weight"): named(graph, "a_weight")}, {}).graph
    rewrite = untie(one, [named(one, "a_weight")])
    assert wiring(rewrite.graph) == {
        "a_weight": [],
        "b_weight": [],
        "x": [],
        "a": ["x", "a_weight"],
        "b": ["a", "b_weight"],
    }
    assert [branch.label for branch in rewrite.branches] == ["", "copy 1"]
    assert validate(rewrite.graph) == []


def test_a_copy_whose_name_is_taken_gets_a_number() -> None:
    nodes = [
        variable("w"),
        variable("b_weight"),
        *(operator("FullyConnected", name, [1, 0]) for name in "ab"),
    ]
    rewrite = untie(graph := read(document(nodes, [2, 3])), [named(graph, "w")])
    assert wiring(rewrite.graph)["b"] == ["b_weight", "w_1"]


@pytest.mark.parametrize(
    "transform", [lambda g, n: tie(g, {n: g.nodes[1]}, {}), lambda g, n: untie(g, [n])]
)
def test_only_variables_without_inputs_are_tied_or_untied(transform: object) -> None:
    graph = twins()
    with pytest.raises(RefusedError):
        transform(graph, named(graph, "a"))  # type: ignore[operator]


def test_versions_are_counted_on_over_several_ties() -> None:
    """A variable that nothing mutates adds none, wherever it stands."""
    nodes = [variable(name) for name in "xmno"]
    nodes += [
        operator("op", "a", [0, (1, 0, 2)]),
        operator("op", "b", [4, 2]),
        operator("op", "c", [5, (3, 0, 1)]),
    ]
    graph = read(document(nodes, [6]))
    kept = named(graph, "m")
    rewrite = tie(graph, {named(graph, "n"): kept, named(graph, "o"): kept}, {})
    assert [named(rewrite.graph, name).inputs[1].version for name in "abc"] == [2, 0, 3]


def test_a_copy_is_mutated_by_its_user_alone() -> None:
    nodes = [
        variable("x"),
        variable("m"),
        operator("op", "a", [0, (1, 0, 1)]),
        operator("op", "b", [2, (1, 0, 2)]),
    ]
    nodes += [operator("op", "c", [3, 1])]
    graph = read(document(nodes, [4]))
    rewrite = untie(graph, [named(graph, "m")])
    inputs = [named(rewrite.graph, name).inputs[1] for name in "abc"]
    assert [(entry.node.name, entry.version) for entry in inputs] == [
        ("m", 1),
        ("m_1", 1),
        ("m_2", 0),
    ]


def test_the_report_of_untying_lists_what_was_copied_and_what_stays() -> None:
    dense = {"attrs": {"no_bias": "True", "num_hidden": "2"}}
    nodes = [variable(name) for name in ("x", "w_weight", "own_weight")]
    nodes += [
        operator("FullyConnected", name, [source, 1], **dense)
        for name, source in (("a", 0), ("b", 3), ("c", 4))
    ]
    graph = read(document([*nodes, operator("FullyConnected", "own", [5, 2], **dense)], [6]))
    sharing = plan_untie(graph, ["w_*"])
    assert sharing.ties == Ties(
        [],
        [],
        [Tied("w_weight", "b_weight", "--untie w_*"), Tied("w_weight", "c_weight", "--untie w_*")],
        ["own_weight"],
    )
    assert wiring(sharing.graph)["c"] == ["b", "c_weight"]
    with pytest.raises(RefusedError) as caught:
        plan_untie(graph, ["w_weights", "own_weight"])
    assert [(fault.message, fault.hint) for fault in caught.value.faults] == [
        (
            "`untie` 'w_weights' matches no parameter that several operators use",
            "did you mean 'w_weight'?",
        ),
        (
            "`untie` 'own_weight' matches no parameter that several operators use",
            "did you mean 'w_weight'?",
        ),
    ]
    with pytest.raises(RefusedError) as caught:
        plan_untie(sharing.graph, ["w_weight"])
    assert caught.value.faults[0].hint == "no parameter of this graph has more than one user"


def test_an_input_beyond_those_that_an_operator_names_gets_a_number() -> None:
    nodes = [
        variable("x"),
        variable("w"),
        operator("relu", "a", [0, 1]),
        operator("relu", "b", [2, 1]),
    ]
    rewrite = untie(graph := read(document(nodes, [3])), [named(graph, "w")])
    assert wiring(rewrite.graph)["b"] == ["a", "w_1"]
