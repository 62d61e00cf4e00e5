"""Which node became which: renames and edits planted in graphs are found, and nothing else is."""

from __future__ import annotations

import json
import random

import pytest

from graphshare.differences.alignment import align
from graphshare.differences.changes import GraphDiff
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Graph
from tests.effort import grows_with
from tests.graph_differences import diff_graphs
from tests.surroundings import size_of_day
from tests.symbols import Document, document, operator, siamese, two_layers, variable


def graph(found: Document) -> Graph:
    return read_symbol(json.dumps(found).encode(), where="test")


def chain(
    blocks: int, *, prefix: str = "", skip: int | None = None, extra: int | None = None
) -> Document:
    """Blocks of a fully connected layer and an activation; ``skip`` leaves one activation out, ``extra`` adds one."""
    nodes, last = [variable(f"{prefix}data")], 0
    for i in range(blocks):
        nodes.append(variable(f"{prefix}fc{i}_weight"))
        nodes.append(operator("FullyConnected", f"{prefix}fc{i}", [last, len(nodes) - 1],
                              attrs={"num_hidden": str(i + 1), "no_bias": "True"}))  # fmt: skip
        last = len(nodes) - 1
        for name in ([] if i == skip else [f"act{i}"]) + ([f"new{i}"] if i == extra else []):
            nodes.append(operator("Activation", prefix + name, [last], attrs={"act_type": "relu"}))
            last = len(nodes) - 1
    return document(nodes, [last])


def names(found: GraphDiff) -> tuple[list[str], list[str], list[tuple[str, str]], list[str]]:
    return ([n.name for n in found.added], [n.name for n in found.removed],
            [(p.old.name, p.new.name) for p in found.renamed], [c.new.name for c in found.changed])  # fmt: skip


@pytest.mark.parametrize("made", [siamese, two_layers, lambda: chain(20)])
def test_a_graph_does_not_differ_from_itself(made: object) -> None:
    assert not diff_graphs(graph(made()), graph(made()))  # type: ignore[operator]


def test_all_names_may_change() -> None:
    found = diff_graphs(graph(chain(30)), graph(chain(30, prefix="other_")))
    added, removed, renamed, changed = names(found)
    assert (added, removed, changed) == ([], [], [])
    assert renamed == [(name.name, f"other_{name.name}") for name in graph(chain(30)).nodes]
    assert not found.without_names()


def test_shuffled_names_are_renames_and_nothing_else() -> None:
    document_, shuffled = chain(40), chain(40)
    labels = [node["name"] for node in shuffled["nodes"]]
    mixed = random.Random(3).sample(labels, len(labels))
    for node, name in zip(shuffled["nodes"], mixed, strict=True):
        node["name"] = name
    added, removed, renamed, changed = names(diff_graphs(graph(document_), graph(shuffled)))
    assert (added, removed, changed) == ([], [], [])
    assert renamed == [(a, b) for a, b in zip(labels, mixed, strict=True) if a != b]


def test_a_changed_attribute_is_the_only_change() -> None:
    other = two_layers()
    other["nodes"][3]["attrs"]["num_hidden"] = "5"
    found = diff_graphs(graph(two_layers()), graph(other))
    assert names(found) == ([], [], [], ["fc1"])
    assert [(c.what, c.key, c.old, c.new) for c in found.changed[0].changes] == [
        ("attribute", "num_hidden", "4", "5")
    ]


def test_a_changed_attribute_is_found_among_renamed_nodes() -> None:
    other = chain(12, prefix="p_")
    next(node for node in other["nodes"] if node["name"] == "p_fc5")["attrs"]["num_hidden"] = "77"
    added, removed, renamed, changed = names(diff_graphs(graph(chain(12)), graph(other)))
    assert (added, removed, changed) == ([], [], ["p_fc5"])
    assert len(renamed) == len(other["nodes"])


@pytest.mark.parametrize("prefix", ["", "p_"])
def test_an_inserted_node_is_the_only_addition(prefix: str) -> None:
    found = diff_graphs(graph(chain(12)), graph(chain(12, prefix=prefix, extra=5)))
    added, removed, _, changed = names(found)
    assert (added, removed, changed) == ([f"{prefix}new5"], [], [f"{prefix}fc6"])
    inputs = [(c.what, c.key, c.old, c.new) for c in found.changed[0].changes]
    assert inputs == [("input", "0", "act5", f"{prefix}new5")]


@pytest.mark.parametrize("prefix", ["", "p_"])
def test_a_removed_node_is_the_only_removal(prefix: str) -> None:
    added, removed, _, changed = names(
        diff_graphs(graph(chain(12)), graph(chain(12, prefix=prefix, skip=5)))
    )
    assert (added, removed, changed) == ([], ["act5"], [f"{prefix}fc6"])


def test_structure_tells_swapped_names_even_beside_an_edit() -> None:
    other = chain(12)
    by_name = {node["name"]: node for node in other["nodes"]}
    by_name["fc2_weight"]["name"], by_name["fc3_weight"]["name"] = "fc3_weight", "fc2_weight"
    by_name["fc9"]["attrs"]["num_hidden"] = "77"
    added, removed, renamed, changed = names(diff_graphs(graph(chain(12)), graph(other)))
    assert (added, removed, changed) == ([], [], ["fc9"])
    assert sorted(renamed) == [("fc2_weight", "fc3_weight"), ("fc3_weight", "fc2_weight")]


def test_without_renames_only_names_pair() -> None:
    found = diff_graphs(graph(siamese()), graph({**siamese(), "nodes": [
        {**node, "name": f"x_{node['name']}"} for node in siamese()["nodes"]]}), renames=False)  # fmt: skip
    assert len(found.added) == len(found.removed) == 4


def test_a_replaced_operator_is_a_change_of_its_node() -> None:
    other = chain(4)
    node = next(node for node in other["nodes"] if node["name"] == "act1")
    node.update(op="LeakyReLU", attrs={"act_type": "leaky"})
    found = diff_graphs(graph(chain(4)), graph(other))
    assert names(found) == ([], [], [], ["act1"])
    assert next((c.what, c.old, c.new) for c in found.changed[0].changes) == (
        "operator",
        "Activation",
        "LeakyReLU",
    )


def test_ties_and_untied_variables_are_found() -> None:
    apart, tied = chain(2), chain(2)
    for found in (apart, tied):
        next(n for n in found["nodes"] if n["name"] == "fc1")["attrs"]["num_hidden"] = "1"
    fc1 = next(n for n in tied["nodes"] if n["name"] == "fc1")
    fc1["inputs"][1] = [1, 0, 0]
    found = diff_graphs(graph(apart), graph(tied))
    assert [(t.how, [n.name for n in t.olds], [n.name for n in t.news]) for t in found.ties] == [
        ("tied", ["fc0_weight", "fc1_weight"], ["fc0_weight"])
    ]
    back = diff_graphs(graph(tied), graph(apart))
    assert [(t.how, [n.name for n in t.olds], [n.name for n in t.news]) for t in back.ties] == [
        ("untied", ["fc0_weight"], ["fc0_weight", "fc1_weight"])
    ]


def test_changed_outputs_and_graph_attributes_are_found() -> None:
    other = chain(2)
    other["heads"] = [[2, 0, 0], *other["heads"]]
    other["attrs"]["mxnet_version"] = ["int", 10700]
    found = diff_graphs(graph(chain(2)), graph(other))
    assert [(c.key, c.old, c.new) for c in found.outputs] == [
        ("0", "act1", "fc0"),
        ("1", None, "act1"),
    ]
    assert [(c.key, c.old, c.new) for c in found.attributes] == [
        ("mxnet_version", '["int",10901]', '["int",10700]')
    ]


def test_repeated_names_pair_by_structure() -> None:
    nodes = [
        variable("x"),
        operator("relu", "a", [0]),
        operator("tanh", "a", [1]),
        operator("relu", "a", [2]),
    ]
    assert not diff_graphs(graph(document(nodes, [3])), graph(document(nodes, [3])))


def test_subgraphs_are_compared() -> None:
    def nest(name: str) -> Document:
        inner = document([variable("x"), operator("relu", "r", [0], attrs={"k": name})], [1])
        return document(
            [variable("d"), {**operator("_foreach", "loop", [0]), "subgraphs": [inner]}], [1]
        )

    found = diff_graphs(graph(nest("1")), graph(nest("2")))
    assert [(c.what, c.key) for c in found.changed[0].changes] == [("sub-graph", "0")]
    assert not diff_graphs(graph(nest("1")), graph(nest("1")))


def read(text: str) -> Graph:
    """Return the graph of ``variables; name=operator:inputs ...; heads``; a number after an
    operator is an attribute.
    """
    variables, operators, heads = (part.split() for part in text.split(";"))
    numbers, nodes = (
        {name: number for number, name in enumerate(variables)},
        [variable(name) for name in variables],
    )
    for line in operators:
        name, op, inputs = line.replace(":", "=").split("=")
        attrs = {"scalar": op.partition("/")[2]} if "/" in op else {}
        nodes.append(
            operator(
                op.partition("/")[0],
                name,
                [numbers[each] for each in inputs.split(",")],
                attrs=attrs,
            )
        )
        numbers[name] = len(nodes) - 1
    return graph(document(nodes, [numbers[head] for head in heads]))


ALIGNED = {
    # By structure before names.
    "equal inputs and uses": ("x; a=sin:x b=cos:a; b", "x; b=sin:x a=cos:b; a", "a-b b-a x-x"),
    "equal names of several alike": (
        "x; a=sin:x b=sin:x s=elemwise_add:a,a t=elemwise_add:b,b; s t",
        "x; b=sin:x a=sin:x s=elemwise_add:a,a t=elemwise_add:b,b; s t",
        "a-a b-b s-s t-t x-x",
    ),
    "several alike in their order": (
        "x; a=sin:x b=sin:x t=add_n:a,b; t", "x; c=sin:x d=sin:x t=add_n:c,d; t", "a-c b-d t-t x-x"
    ),
    "more on one side than on the other": ("x; a=sin:x b=sin:x t=cos:a; t", "x; c=sin:x t=cos:c; t", "a-c t-t x-x"),
    "equal names beside an edit of the inputs": (
        "x; a=sin:x y=cos:a; y", "x; b=sin:x t=exp:x a=sin:t y=cos:a; y b", "a-a x-x y-y"
    ),
    "equal names beside an edit of the uses": (
        "x; a=sin:x y=cos:a; y", "x; a=sin:x u=exp:a v=sin:u y=cos:v; y", "a-a x-x y-y"
    ),
    "equal inputs before equal names": ("x; a=sin:x y=cos:a; y", "x; b=sin:x u=exp:b a=sin:u; a", "a-b x-x y-a"),
    "uses of one alone": ("x; a=sin:x y=cos:a; y", "x; u=exp:x b=sin:u y=cos:b; y", "a-b x-x y-y"),
    "uses of several alike are not paired in order": (
        "x; a=sin:x b=sin:x y=add_n:a,b; y", "x; u=exp:x c=sin:u d=sin:u y=add_n:c,d; y", "a-c b-d x-x y-y"
    ),
    "attributes that are written in another way": (
        "x; a=_plus_scalar/1:x b=_plus_scalar/2:a; b", "x; c=_plus_scalar/1.0:x d=_plus_scalar/2.0:c; d", "a-c b-d x-x"
    ),
    # By names and neighbours.
    "names alone": ("x; a=sin:x y=cos:a; y", "x; t=exp:x a=tan:t y=abs:a; y", "a-a x-x y-y"),
    "names before neighbours of another operator": ("x; y=sin:x; y", "x; y=exp:x h=cos:y; h", "x-x y-y"),
    "the same place beside a pair": ("x; a=sin:x y=cos:a; y", "x; b=exp:x y=cos:b; y", "a-b x-x y-y"),
    "the only consumer beside a pair": ("x; a=sin:x b=cos:a; b", "x; a=sin:x c=exp:a; c", "a-a b-c x-x"),
    "consumers at other places": (
        "x z; a=sin:x b=elemwise_add:z,a; a b", "x z; a=sin:x d=elemwise_sub:a,z; a", "a-a x-x z-z"
    ),
    "consumers at one place": (
        "x z; a=sin:x b=elemwise_add:z,a; a b", "x z; a=sin:x d=elemwise_sub:z,a; a", "a-a b-d x-x z-z"
    ),
    "one consumer of several": (
        "x; a=sin:x b=cos:a; a b", "x; a=sin:x d=exp:a e=tan:a; a", "a-a x-x"
    ),
    "an operator with the name of a variable": ("x; a=sin:x; a", "x a; b=exp:x c=add_n:a,b,x; c", "a-c x-a"),
    "the other way round": ("x a; b=exp:x c=add_n:a,b,x; c", "x; a=sin:x; a", "a-x c-a"),
    "names that several have": ("x; a=sin:x a=cos:a; a", "x; a=exp:x a=tan:a a=abs:a; a", "a-a a-a x-x"),
    # Variables.
    "uses in pairs": ("p q; a=elemwise_sub:p,q; a", "q p; a=elemwise_sub:q,p; a", "a-a p-q q-p"),
    "variables that are outputs": ("p q; ; p q", "r s; ; r s", "p-r q-s"),
    "names of variables without uses in pairs": ("p q; a=sin:p; a", "p q; a=sin:p b=cos:q; a b", "a-a p-p q-q"),
    "any use in common": ("p q; a=elemwise_sub:p,q; a", "r; a=elemwise_sub:r,r; a", "a-a p-r"),
}  # fmt: skip


@pytest.mark.parametrize("name", ALIGNED)
def test_nodes_are_paired(name: str) -> None:
    left, right, pairs = ALIGNED[name]
    alignment = align(read(left), read(right))
    assert " ".join(sorted(f"{a.name}-{b.name}" for a, b in alignment.images.items())) == pairs
    assert alignment.origins == {b: a for a, b in alignment.images.items()}


def test_nodes_that_are_taken_or_known_are_left_alone() -> None:
    left, right = read("x; a=sin:x b=sin:x c=cos:b; a c"), read("x; a=sin:x b=sin:x c=cos:b; a c")
    a, b = ({node.name: node for node in each.nodes} for each in (left, right))
    alignment = align(left, right, taken=[a["a"], b["c"]], known={a["b"]: b["a"]})
    assert {x.name: y.name for x, y in alignment.images.items()} == {"b": "a", "x": "x"}


def test_the_work_grows_with_the_nodes() -> None:
    def compare_chains(length: int) -> None:
        found = diff_graphs(graph(chain(length)), graph(chain(length, prefix="p_", extra=100)))
        assert [n.name for n in found.added] == ["p_new100"]

    assert grows_with(compare_chains, size_of_day(300, 1000)) < 4.5
