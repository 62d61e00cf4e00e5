"""Caffe2's tables on serialized graphs: after ``share`` each layer uses the table's parameter, and
keeps its own name.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import graphshare as gs
from graphshare.errors import RefusedError, SelfCheckError
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.compare import check_isomorphic
from graphshare.ir.graph import Branch, Graph, Rewrite
from graphshare.rewrite.find_candidates import find_candidates
from graphshare.rewrite.rules.model import Rule, Ruleset
from graphshare.rewrite.share_parameters import plan_doctor, plan_share
from graphshare.rewrite.tie import plan_untie, tie, untie
from tests.symbols import Record, document, mxnet_text, operator, variable
from tests.unit.rewrite.rules.test_scopes import BREW, CASES, DOCUMENTED
from tests.validate import validate


def layers(*names: str, hidden: dict[str, str] | None = None, **attrs: dict[str, Any]) -> Graph:
    """One fully connected layer for each parameter name, called ``layer of NAME``, on one input."""
    nodes: list[Record] = [variable("data")]
    heads = []
    for name in dict.fromkeys(names):
        nodes.append(variable(name, **({"attrs": attrs[name]} if name in attrs else {})))
        units = (hidden or {}).get(name, "4")
        nodes.append(
            operator(
                "FullyConnected",
                f"layer of {name}",
                [0, len(nodes) - 1],
                attrs={"no_bias": "True", "num_hidden": units},
            )
        )
        heads.append(len(nodes) - 1)
    return read_symbol(mxnet_text(document(nodes, heads)).encode())


def rules_of(blocks: tuple[tuple[str, dict[str, str]], ...]) -> Ruleset:
    return Ruleset(
        tuple(
            Rule("scope", key, to, within=begin)
            for begin, pairs in blocks
            for key, to in pairs.items()
        )
    )


def used(graph: Graph) -> dict[str, str]:
    return {
        node.name.removeprefix("layer of "): node.inputs[1].node.name
        for node in graph.nodes
        if not node.is_variable
    }


@pytest.mark.parametrize(
    ("blocks", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_layers_use_the_parameters_of_the_table(
    blocks: tuple[tuple[str, dict[str, str]], ...], expected: str
) -> None:
    words = expected.split()
    table = dict(zip(words[::2], words[1::2], strict=True))
    graph = layers(*table)
    if all(name == end for name, end in table.items()):
        with pytest.raises(RefusedError, match="no parameter would change"):
            plan_share(graph, rules_of(blocks))
        return
    shared = plan_share(graph, rules_of(blocks)).graph
    assert used(shared) == table
    assert validate(shared) == []
    nodes = {id(node.inputs[1].node) for node in shared.nodes if not node.is_variable}
    assert len(nodes) == len(set(table.values())), "one name is one node"
    assert [node.name for node in shared.nodes if not node.is_variable] == [
        n.name for n in graph.nodes if not n.is_variable
    ]


def test_the_documented_table_word_for_word() -> None:
    names = [
        "scope_a/w",
        "scope_b/w",
        "scope_c/w",
        "scope_b/shared_child/w",
        "scope_b/unshared_child/w",
    ]
    made = plan_share(layers(*names), rules_of(DOCUMENTED))
    assert list(used(made.graph).values()) == [
        "scope_a/w", "scope_a/w", "scope_c/w", "scope_a/w", "scope_a/unshared_child/w"]  # fmt: skip
    assert [(tie.name, tie.to) for tie in made.ties.tied] == [
        ("scope_b/w", "scope_a/w"),
        ("scope_b/shared_child/w", "scope_a/w"),
    ]
    assert [(tie.name, tie.to) for tie in made.ties.renamed] == [
        ("scope_b/unshared_child/w", "scope_a/unshared_child/w")
    ]
    assert made.ties.separate == ["scope_c/w"]


def test_six_parameters_and_four_outputs() -> None:
    """The deep model: two layers of the root, one of each model's scopes, in two models of which one is the other's."""
    nodes: list[Record] = [variable("data")]
    heads = []
    scopes = [
        f"some_global_scope/{model}/{part}"
        for model in ("model_a", "model_b")
        for part in ("shared_1", "shared_2", "unshared")
    ]
    for scope in ["", *scopes]:
        at = len(nodes)
        begin = f"{scope}/" if scope else ""
        layer = "output" if scope else "fc1"
        nodes += [variable(f"{begin}{layer}_{kind}", attrs={"__init__": "x"}) for kind in "wb"]
        nodes.append(
            operator(
                "FullyConnected", f"{begin}{layer}", [0, at, at + 1], attrs={"num_hidden": "4"}
            )
        )
        heads.append(len(nodes) - 1)
    graph = read_symbol(mxnet_text(document(nodes, heads)).encode())
    shared = plan_share(graph, rules_of(BREW)).graph
    assert [node.name for node in shared.nodes if node.is_variable][1:] == [
        "fc1_w", "fc1_b", "some_global_scope/model_a/output_w", "some_global_scope/model_a/output_b",
        "some_global_scope/model_a/unshared/output_w", "some_global_scope/model_a/unshared/output_b"]  # fmt: skip
    assert len({entry.node.name for entry in shared.heads}) == len(graph.heads), (
        "outputs keep their own scopes"
    )


def test_another_number_of_units_is_refused() -> None:
    names = ["global_scope/fc/w", "global_scope/fc_auto_0/w"]
    with pytest.raises(RefusedError, match="shapes") as caught:
        plan_share(
            layers(*names, hidden={names[1]: "5"}),
            rules_of((("global_scope", {"fc_auto_0": "fc"}),)),
        )
    assert all(name in str(caught.value) for name in names)
    plan_share(layers(*names), rules_of((("global_scope", {"fc_auto_0": "fc"}),)))


@pytest.mark.parametrize(
    ("a", "b", "fits"),
    [
        ({"__shape__": "(4, 3)"}, {"__shape__": "(4, 3)"}, True),
        ({"__shape__": "(4, 3)"}, {"__shape__": "(4, 0)"}, True),
        ({"__shape__": "(4, 3)"}, {"__shape__": "(4, -1)"}, True),
        ({"__shape__": "(4, 3)"}, {"__shape__": "()"}, True),
        ({"__shape__": "(4, 3)"}, {"__shape__": "None"}, True),
        ({"__shape__": "(4, 3)"}, {}, True),
        ({"__shape__": "(4, 3)"}, {"__shape__": "(4, 2)"}, False),
        ({"__shape__": "(4, 3)"}, {"__shape__": "(0, 3, 1)"}, False),
        ({"__dtype__": "0"}, {"__dtype__": "0"}, True),
        ({"__dtype__": "0"}, {"__dtype__": "2"}, False),
        ({"__dtype__": "0"}, {"__dtype__": "-1"}, True),
        ({"__dtype__": "0"}, {"__dtype__": "7"}, False),
        ({"__dtype__": "0"}, {"__dtype__": "8"}, True),
    ],
)
def test_declared_shapes_and_types(a: dict[str, str], b: dict[str, str], fits: bool) -> None:
    graph = layers("a", "b", a=a, b=b)
    rules = Ruleset((Rule("alias", "b", "a"),))
    if fits:
        assert used(plan_share(graph, rules).graph) == {"a": "a", "b": "a"}
    else:
        with pytest.raises(RefusedError, match="cannot be one"):
            plan_share(graph, rules)


@pytest.mark.parametrize("other", ["()", "(4, 0)", "(0, 3)"])
def test_under_numpy_shapes_0_and_no_axes_are_sizes(other: str) -> None:
    graph = layers("a", "b", a={"__shape__": "(4, 3)"}, b={"__shape__": other})
    rules = Ruleset((Rule("alias", "b", "a"),))
    assert used(plan_share(graph, rules).graph) == {"a": "a", "b": "a"}
    with pytest.raises(RefusedError, match="they have shapes"):
        plan_share(replace(graph, attrs={"is_np_shape": ("int", 1)}), rules)


@pytest.mark.parametrize("shape", ["()", "(4, 0)"])
def test_detect_knows_declared_sizes_of_0_under_numpy_shapes(shape: str) -> None:
    graph = layers(
        "left_fc_w",
        "right_fc_w",
        **{name: {"__shape__": shape} for name in ("left_fc_w", "right_fc_w")},
    )
    names = ["left_fc_w", "right_fc_w"]
    assert [one.why for one in find_candidates(graph, as_parameter=names)] == ["operator"]
    modern = replace(graph, attrs={"is_np_shape": ("int", 1)})
    assert [(one.why, one.form) for one in find_candidates(modern, as_parameter=names)] == [
        ("shape", shape)
    ]


@pytest.mark.parametrize("hint", ["__lr_mult__", "__wd_mult__", "__init__", "lr_mult"])
def test_hints_of_optimisers(hint: str) -> None:
    rules = Ruleset((Rule("alias", "b", "a"),))
    for a, b, warned in (({}, {hint: "2"}, True), ({hint: "2"}, {}, True), ({hint: "1"}, {hint: "2"}, True),
                         ({hint: "2"}, {hint: "2"}, False)):  # fmt: skip
        notes = plan_share(layers("a", "b", a=a, b=b), rules).notes
        assert bool(notes) == warned
        assert all(hint.strip("_") in note for note in notes)


def test_a_parameter_and_a_state_are_not_one() -> None:
    nodes = [variable("x"), variable("g"), variable("b"), variable("m"), variable("v"),
             operator("BatchNorm", "bn", [0, 1, 2, (3, 0, 1), (4, 0, 1)])]  # fmt: skip
    graph = read_symbol(mxnet_text(document(nodes, [5])).encode())
    with pytest.raises(RefusedError, match="'m' is an auxiliary state and 'g' is a parameter"):
        plan_share(graph, Ruleset((Rule("alias", "m", "g"),)))


def test_a_name_that_an_operator_or_input_has_is_not_taken() -> None:
    for taken in ("data", "layer of a"):
        with pytest.raises(RefusedError, match="already has"):
            plan_share(layers("a", "b"), Ruleset((Rule("map", "b", taken),)))


@pytest.mark.parametrize("pattern", ["dat*", "nothing"])
def test_an_alias_that_matches_no_parameter_is_refused_with_the_parameters(pattern: str) -> None:
    """An input that the pattern matches is not one of them."""
    nodes = [
        variable("data"),
        variable("w"),
        operator("dot", "d", [0, 1]),
        variable("d_weight"),
        operator("dot", "e", [2, 3]),
    ]
    graph = read_symbol(mxnet_text(document(nodes, [4])).encode())
    with pytest.raises(RefusedError, match="matches no parameter of the graph") as error:
        plan_share(graph, Ruleset((Rule("alias", pattern, "w", option=True),)), as_parameter=["w"])
    assert [fault.hint for fault in error.value.faults] == ["the parameters are w, d_weight"]


def test_a_parameter_and_a_state_of_equal_numbers_are_not_candidates() -> None:
    nodes = [variable("x"), variable("g"), variable("b"), variable("m"), variable("v"), variable("x_m"),
             operator("BatchNorm", "bn", [0, 1, 2, (3, 0, 1), (4, 0, 1)]),
             operator("broadcast_add", "sum", [6, 5])]  # fmt: skip
    graph = read_symbol(mxnet_text(document(nodes, [7])).encode())
    numbers = dict(zip("gbmv", np.arange(12, dtype="float32").reshape(4, 3), strict=True))
    model = gs.Checkpoint(graph).with_params({**numbers, "x_m": numbers["m"]})
    assert gs.detect(model) == []
    (group,) = gs.detect(model.with_params({**numbers, "b": numbers["g"], "x_m": numbers["m"]}))
    assert (group.names, group.why) == (["g", "b"], "values")


def test_separate_twins_and_detected_ones_without_a_file() -> None:
    graph = layers("left/fc_w", "right/fc_w", "other_w")
    (group,) = find_candidates(graph, as_parameter=["left/fc_w"])
    assert (group.names, group.why, group.related) == (
        ["left/fc_w", "right/fc_w"],
        "operator",
        True,
    )
    with pytest.raises(RefusedError, match="nothing to repair"):
        plan_doctor(graph, "tie")
    with pytest.raises(RefusedError, match="matches no parameter that several"):
        plan_untie(graph, ["*"])


def test_a_tie_that_was_not_made_is_found() -> None:
    graph = layers("a", "b")
    a, b = graph.nodes[1], graph.nodes[3]
    made = tie(graph, {b: a}, {})
    check_isomorphic(made, tied=[b])
    images = {**made.branches[0].images, b: b}
    with pytest.raises(SelfCheckError, match="layer of b"):
        check_isomorphic(Rewrite(made.graph, (Branch("", graph, images),)), tied=[b])
    lied = {**{node: node for node in graph.nodes}, b: a}
    with pytest.raises(SelfCheckError, match="layer of b"):
        check_isomorphic(Rewrite(graph, (Branch("", graph, lied),)), tied=[b])


def test_a_copy_that_stands_for_another_is_found() -> None:
    nodes = [
        variable("x"),
        variable("w"),
        variable("v"),
        operator("dot", "p", [0, 1]),
        operator("dot", "q", [0, 1]),
    ]
    graph = read_symbol(mxnet_text(document(nodes, [3, 4])).encode())
    made = untie(graph, [graph.nodes[1]])
    (copy,) = made.branches[1].images.values()
    first = Rewrite(made.graph, made.branches[:1])
    check_isomorphic(first, copies={copy: graph.nodes[1]})
    with pytest.raises(SelfCheckError, match="'q'"):
        check_isomorphic(first, copies={copy: graph.nodes[2]})
    with pytest.raises(SelfCheckError, match="'q'"):
        check_isomorphic(first)


def test_shapes_that_differ_are_named_with_what_is_not_known_of_them() -> None:
    graph = layers("a", "b", a={"__shape__": "(4, 0, 3)"}, b={"__shape__": "(-1, 2, 1)"})
    with pytest.raises(RefusedError, match=r"they have shapes \?x2x1 and 4x\?x3"):
        plan_share(graph, Ruleset((Rule("alias", "b", "a"),)))


@pytest.mark.parametrize(
    ("aliases", "is_told"),
    [
        ([("*", "a")], True),
        ([("b", "a"), ("c", "a")], False),
        ([("b", "a")], False),
        ([("[bc]", "a")], True),
        ([("b*", "a")], False),
    ],
)
def test_a_pattern_that_leaves_nothing_separate_is_told(
    aliases: list[tuple[str, str]], is_told: bool
) -> None:
    notes = plan_share(
        layers("a", "b", "c"), Ruleset(tuple(Rule("alias", *alias) for alias in aliases))
    ).notes
    text = "one pattern ties all 3 parameters into 1: none is separate any more"
    assert [note for note in notes if note.startswith("one pattern")] == [text] * is_told
