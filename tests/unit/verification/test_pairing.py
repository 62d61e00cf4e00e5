"""Which heads belong together: by a map file, a rewrite, or names; each refusal names what has no counterpart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.analysis.branches import HeadPairs
from graphshare.errors import GraphshareError, InputError, RefusedError
from graphshare.ir.graph import Graph
from graphshare.ops.kernel import Array
from graphshare.verification.pairing import (
    ModelPairs,
    find_changes,
    pair_branches,
    pair_by_rewrite,
    pair_models,
)
from tests.symbols import document, operator, variable


def load(folder: Path, *names: str, heads: Sequence[int] | None = None) -> gs.Checkpoint:
    """A model of one input and as many relu of it as there are names."""
    nodes = [variable("data"), *(operator("relu", name, [0]) for name in names)]
    path = folder / f"{'-'.join(names)}-symbol.json"
    path.write_text(json.dumps(document(nodes, heads or range(1, len(nodes)))))
    return gs.load(path)


def entry(source: int | None, target: int | None, branch: str, *names: str) -> dict[str, Any]:
    old, new = (names * 2)[:2] or ("", "")
    place = None if target is None and not names[1:] else {"id": target, "name": new}
    return {"from": {"id": source, "name": old}, "to": place, "branch": branch}


def write_map(folder: Path, *entries: dict[str, Any]) -> str:
    (folder / "map.json").write_text(json.dumps({"version": 1, "entries": list(entries)}))
    return str(folder / "map.json")


def name_pairs(pairs: Sequence[HeadPairs]) -> list[tuple[str, str, list[tuple[str, str]]]]:
    named = []
    for pair in pairs:
        heads = zip(pair.left, pair.right, strict=True)
        named.append((pair.reference, pair.label, [(a.node.name, b.node.name) for a, b in heads]))
    return named


def pair(graph: Graph, path: str) -> list[tuple[str, str, list[tuple[str, str]]]]:
    return name_pairs(pair_branches(graph, (), path))


def test_a_map_pairs_heads_of_one_source_with_those_of_its_first_branch(tmp_path: Path) -> None:
    graph = load(tmp_path, "a", "b", "p-b", "p-a", "q-a").graph
    lines = [entry(1, 1, "", "a"), entry(2, 2, "", "b")]
    lines += [
        entry(1, 4, "p", "a", "p-a"),
        entry(2, 3, "p", "b", "p-b"),
        entry(1, 5, "q", "a", "q-a"),
    ]
    assert pair(graph, write_map(tmp_path, *lines)) == [
        ("", "p", [("b", "p-b"), ("a", "p-a")]),
        ("", "q", [("a", "q-a")]),
    ]


def test_a_map_finds_a_node_by_its_name_where_ids_have_changed(tmp_path: Path) -> None:
    graph = load(tmp_path, "a", "p-a").graph
    for number in (0, 1, 9):
        path = write_map(tmp_path, entry(1, 1, "", "a"), entry(1, number, "p", "a", "p-a"))
        assert pair(graph, path) == [("", "p", [("a", "p-a")])]


@pytest.mark.parametrize(
    "more",
    [
        entry(7, None, "", "dropped"),
        entry(7, None, "p", "dropped", "without an id"),
        entry(None, 2, "p", "without an id", "p-a"),
        entry(None, None, "other", "neither", "has an id"),
    ],
)
def test_entries_without_two_ids_pair_nothing(more: dict[str, Any], tmp_path: Path) -> None:
    graph = load(tmp_path, "a", "p-a").graph
    path = write_map(tmp_path, more, entry(1, 1, "", "a"), entry(1, 2, "p", "a", "p-a"), more)
    assert pair(graph, path) == [("", "p", [("a", "p-a")])]


@pytest.mark.parametrize("number", [-1, 3, 9])
def test_a_map_of_another_graph_is_refused(number: int, tmp_path: Path) -> None:
    graph = load(tmp_path, "a", "p-a").graph
    with pytest.raises(
        InputError, match=rf"map\.json: refers to node {number}, which the graph does not have"
    ):
        pair(graph, write_map(tmp_path, entry(1, 1, "", "a"), entry(1, number, "p", "a", "x-a")))


@pytest.mark.parametrize("number", [0, 2])
def test_the_first_and_the_last_node_may_have_any_name(number: int, tmp_path: Path) -> None:
    graph = load(tmp_path, "a", "p-a", heads=[0, 1, 2]).graph
    path = write_map(tmp_path, entry(1, 1, "", "a"), entry(1, number, "p", "a", "old name"))
    assert pair(graph, path) == [("", "p", [("a", graph.nodes[number].name)])]


@pytest.mark.parametrize(
    "lines", [[entry(1, 1, "", "a")], [entry(1, 1, "p", "a"), entry(2, 2, "p", "p-a")], []]
)
def test_a_map_of_one_branch_is_refused(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    graph = load(tmp_path, "a", "p-a").graph
    with pytest.raises(InputError, match="has one branch only") as caught:
        pair(graph, write_map(tmp_path, *lines))
    assert "`save(map=...)` wrote after `gs.duplicate`" in str(caught.value.faults[0].hint)


def test_a_plain_map_has_no_branches(tmp_path: Path) -> None:
    (tmp_path / "map.json").write_text('{"a": "p-a"}')
    with pytest.raises(InputError, match="has one branch only"):
        pair(load(tmp_path, "a", "p-a").graph, str(tmp_path / "map.json"))


@pytest.mark.parametrize("source", [5, 0])
def test_a_map_that_pairs_no_heads_is_refused(source: int, tmp_path: Path) -> None:
    """The head came from nothing in the first branch, or from a node that both branches use."""
    graph = load(tmp_path, "a", "p-a").graph
    path = write_map(
        tmp_path,
        entry(0, 0, "", "data"),
        entry(0, 0, "p", "data"),
        entry(source, 2, "p", "b", "p-a"),
    )
    if source:
        with pytest.raises(
            InputError, match=r"map\.json: pairs no head of branch 'p' with one of ''"
        ):
            pair(graph, path)
    else:
        assert pair(graph, path) == [("", "p", [("data", "p-a")])]


def test_a_shared_head_is_a_pair_beside_others_alone(tmp_path: Path) -> None:
    graph = load(tmp_path, "a", "p-a", heads=[0, 1, 2]).graph
    shared = [entry(0, 0, "", "data"), entry(0, 0, "p", "data")]
    path = write_map(tmp_path, *shared, entry(1, 1, "", "a"), entry(1, 2, "p", "a", "p-a"))
    assert pair(graph, path) == [("", "p", [("data", "data"), ("a", "p-a")])]
    with pytest.raises(InputError, match="pairs no head"):
        pair(graph, write_map(tmp_path, *shared))


def test_a_head_that_is_listed_twice_is_paired_once(tmp_path: Path) -> None:
    graph = load(tmp_path, "a", "p-a", heads=[1, 2, 2]).graph
    path = write_map(tmp_path, entry(1, 1, "", "a"), entry(1, 2, "p", "a", "p-a"))
    assert pair(graph, path) == [("", "p", [("a", "p-a")])]


def test_a_rewrite_pairs_what_came_from_one_node(tmp_path: Path) -> None:
    model = gs.duplicate(load(tmp_path, "a", "b"), ["p-", "q-"])
    assert model.rewrite is not None
    found = [pairs for _, _, pairs in name_pairs(pair_by_rewrite(model.rewrite))]
    assert found == [[("a", f"{prefix}a"), ("b", f"{prefix}b")] for prefix in ("p-", "q-")]
    alone = gs.rename(load(tmp_path, "a", "b"), prefix="p-").rewrite
    assert alone is not None
    with pytest.raises(RefusedError, match="there is only one branch"):
        pair_by_rewrite(alone)


def test_prefixes_are_found_unless_they_are_told(tmp_path: Path) -> None:
    graph = load(tmp_path, "a", "p-a", "q-a").graph
    assert name_pairs(pair_branches(graph, (), None)) == [
        ("", "p-", [("a", "p-a")]),
        ("", "q-", [("a", "q-a")]),
    ]
    graph = load(tmp_path, "a", "p-a").graph
    assert name_pairs(pair_branches(graph, ["p-"], None)) == [("", "p-", [("a", "p-a")])]
    with pytest.raises(RefusedError, match="x-"):
        pair_branches(graph, ["x-"], None)


def pair_both(left: gs.Checkpoint, right: gs.Checkpoint, **names: str) -> ModelPairs:
    return pair_models(left, right, (), names)


def test_outputs_pair_in_their_order_unless_they_have_the_same_names(tmp_path: Path) -> None:
    left = load(tmp_path, "a", "b")
    pairs = pair_both(left, load(tmp_path, "b", "a"))
    assert pairs.names == [("a_output", "a_output"), ("b_output", "b_output")]
    assert [head.node.name for head in pairs.right.graph.heads] == ["a", "b"]
    assert pairs.notes == []
    pairs = pair_both(left, load(tmp_path, "b", "c"))
    assert pairs.names == [("b_output", "b_output"), ("a_output", "c_output")]
    assert pairs.notes == [
        "the outputs have other names, and are compared in their order: a_output with c_output"
    ]
    pairs = pair_both(left, load(tmp_path, "c", "d"))
    assert pairs.names == [("a_output", "c_output"), ("b_output", "d_output")]
    text = "a_output with c_output, b_output with d_output"
    assert pairs.notes == [f"the outputs have other names, and are compared in their order: {text}"]
    with pytest.raises(RefusedError) as caught:
        pair_both(load(tmp_path, *"abcde"), load(tmp_path, *"bcdefg"))
    counts = (
        "5 outputs (a_output, b_output, c_output, d_output and 1 more) and 6 (b_output, c_output, "
        "d_output, e_output"
    )
    assert caught.value.faults[0].message == f"the models have {counts} and 2 more)"
    with pytest.raises(GraphshareError, match="the models have 2 outputs"):
        pair_both(left, load(tmp_path, "c"))


def test_outputs_pair_by_the_names_that_a_rewrite_gave(tmp_path: Path) -> None:
    pairs = pair_both(load(tmp_path, "a", "b"), load(tmp_path, "q", "p"), a="p", b="q")
    assert [(x.node.name, y.node.name) for x, y in pairs.outputs] == [("a", "p"), ("b", "q")]


@pytest.mark.parametrize("swapped", [False, True])
def test_outputs_of_one_model_may_be_inside_of_the_other(tmp_path: Path, *, swapped: bool) -> None:
    nodes = [variable("data"), operator("relu", "a", [0]), operator("tanh", "b", [1])]
    for name, heads in (("inner", [1]), ("whole", [2])):
        text = json.dumps(document(nodes[: heads[0] + 1], heads))
        (tmp_path / f"{name}-symbol.json").write_text(text)
    models = [gs.load(tmp_path / f"{name}-symbol.json") for name in ("inner", "whole")]
    pairs = pair_both(*models[:: -1 if swapped else 1])
    assert pairs.names == [("a_output", "a_output")]
    titles = ("the original", "the other model")[:: -1 if swapped else 1]
    assert pairs.missing == dict(zip(titles, (["a_output"], ["b_output"]), strict=True))
    assert not pair_models(*models, (), {}, ["a"]).missing


def test_each_model_may_list_an_inner_value_of_the_other(tmp_path: Path) -> None:
    """The values of both lists are compared, whichever model comes first, and each lacks an output of the other."""
    nodes = [variable("data"), operator("relu", "a", [0]), operator("tanh", "b", [0])]
    for name, head in (("one", 1), ("two", 2)):
        (tmp_path / f"{name}-symbol.json").write_text(json.dumps(document(nodes, [head])))
    models = [gs.load(tmp_path / f"{name}-symbol.json") for name in ("one", "two")]
    for swapped in (1, -1):
        pairs = pair_both(*models[::swapped])
        assert sorted(pairs.names) == [("a_output", "a_output"), ("b_output", "b_output")]
        assert [*pairs.missing.values()] == [["a_output"], ["b_output"]][::swapped]


@pytest.mark.parametrize("passes", [["MakeLoss"], ["BlockGrad", "Dropout"], ["_copy", "_copy"]])
def test_an_output_that_is_passed_on_is_one_with_what_it_passes_on(
    passes: Sequence[str], tmp_path: Path
) -> None:
    """A model that drops the last operator calls the output as the value before it; another inner
    value is no output.
    """
    nodes = [variable("data"), operator("relu", "a", [0]), operator("tanh", "b", [0])]
    for op in passes:
        nodes += [
            operator(op, f"{name}{len(nodes)}", [len(nodes) - 2 + place])
            for place, name in enumerate("ab")
        ]
    models = []
    for name, own, heads in (
        ("left", nodes, [len(nodes) - 2, len(nodes) - 1]),
        ("right", nodes[:3], [2, 1]),
        ("other", nodes[:3], [2]),
    ):
        (tmp_path / f"{name}-symbol.json").write_text(json.dumps(document(own, heads)))
        models.append(gs.load(tmp_path / f"{name}-symbol.json"))
    left, right, other = models
    last = [f"{name}{len(nodes) - 2}_output" for name in "ab"]
    for swapped in (1, -1):
        pairs = pair_both(*(left, right)[::swapped])
        assert sorted(pair[::swapped] for pair in pairs.names) == [
            (last[0], "a_output"),
            (last[1], "b_output"),
        ]
        assert not pairs.missing
        words = [
            " with ".join([one, other][::swapped])
            for one, other in zip(last, ("a_output", "b_output"), strict=True)
        ]
        assert (
            pairs.notes[0]
            == f"outputs have other names, and are compared where one passes the other on: {', '.join(words)}"
        )
        assert gs.compare(*(left, right)[::swapped], shapes={"data": (2, 3)}).outcome == "equal"
        pairs = pair_both(*(left, other)[::swapped])
        assert [pair[::swapped] for pair in pairs.names] == [(last[1], "b_output")]
        assert [*pairs.missing.values()] == [[last[0]]]


def test_targets_are_outputs_of_both_models(tmp_path: Path) -> None:
    left, right = load(tmp_path, "a", "b"), load(tmp_path, "c", "a")
    assert pair_models(left, right, (), {"b": "c"}, ["b"]).names == [("b_output", "c_output")]
    assert pair_models(left, right, (), {}, ["a_*"]).names == [("a_output", "a_output")]
    with pytest.raises(RefusedError, match="0 values named 'b_output', and `targets` compares one"):
        pair_models(left, right, (), {}, ["b"])
    with pytest.raises(RefusedError, match="'c' names no output"):
        pair_models(left, right, (), {}, ["c"])


def load_sum(folder: Path, *names: str, order: Sequence[int]) -> gs.Checkpoint:
    """A model of inputs whose difference is taken in an order."""
    nodes = [*map(variable, names), operator("elemwise_sub", "y", order)]
    path = folder / f"{'-'.join(names)}-symbol.json"
    path.write_text(json.dumps(document(nodes, [len(names)])))
    return gs.load(path)


def test_inputs_pair_by_their_names_and_the_rest_in_its_order(tmp_path: Path) -> None:
    left = load_sum(tmp_path, "a", "b", order=[0, 1])
    for names, order, wanted in (
        (("b", "a"), [1, 0], "ab"),
        (("a", "x"), [0, 1], "ax"),
        (("x", "y"), [0, 1], "xy"),
    ):
        pairs = pair_both(left, load_sum(tmp_path, *names, order=order))
        assert [(a.name, b.name) for a, b in pairs.inputs] == [("a", wanted[0]), ("b", wanted[1])]
        others = [f"{a} with {b}" for a, b in zip("ab", wanted, strict=True) if a != b]
        notes = [f"inputs have other names, and are paired in their order: {', '.join(others)}"]
        assert pairs.notes == (notes if others else [])


def test_exchanged_inputs_are_a_change(tmp_path: Path) -> None:
    """Structure pairs variables by their use, and callers feed them by name."""
    left = load_sum(tmp_path, "a", "b", order=[0, 1])
    assert (
        find_changes(
            pair_both(left, load_sum(tmp_path, "b", "a", order=[1, 0])), across_dtypes=False
        )[1]
        == ()
    )
    _, changes = find_changes(
        pair_both(left, load_sum(tmp_path, "b", "a", order=[0, 1])), across_dtypes=False
    )
    assert changes == (
        "input 'a' takes the place of input 'b' of the other",
        "input 'b' takes the place of input 'a' of the other",
    )


def weighted(
    folder: Path, *, weight: Array, mean: Array | None = None, momentum: str = "0.9"
) -> gs.Checkpoint:
    """A product with a weight and a BatchNorm, whose moving mean is an auxiliary state."""
    names = ("gamma", "beta", "mean", "var")
    nodes = [
        variable("data"),
        variable("w"),
        operator("broadcast_mul", "product", [0, 1]),
        *map(variable, names),
    ]
    nodes.append(
        operator("BatchNorm", "norm", range(2, 7), attrs={"momentum": momentum, "eps": "0.001"})
    )
    (folder / "n-symbol.json").write_text(json.dumps(document(nodes, [7], row_ptr=False)))
    statistics = {name: np.ones(2, "float32") for name in names} | (
        {} if mean is None else {"mean": mean}
    )
    return gs.load(folder / "n-symbol.json").with_params({"w": weight, **statistics})


def test_changes_are_those_of_nodes_and_of_parameters(tmp_path: Path) -> None:
    one = np.ones((1, 2), "float32")
    model = weighted(tmp_path, weight=one)
    cases: list[tuple[gs.Checkpoint, bool, list[str]]] = [
        (weighted(tmp_path, weight=one), False, []),
        (weighted(tmp_path, weight=2 * one), False, ["'w' and 'w'"]),
        (weighted(tmp_path, weight=2 * one), True, ["'w' and 'w'"]),
        (weighted(tmp_path, weight=one.astype("float16")), False, ["'w' and 'w': types "]),
        (weighted(tmp_path, weight=one.astype("float16")), True, []),
        (weighted(tmp_path, weight=one, mean=np.zeros(2, "float32")), False, ["'mean' and 'mean'"]),
        (weighted(tmp_path, weight=one, momentum="0.5"), False, ["momentum"]),
    ]
    for other, across_dtypes, expected in cases:
        _, changes = find_changes(pair_both(model, other), across_dtypes=across_dtypes)
        assert len(changes) == len(expected), changes
        for change, part in zip(changes, expected, strict=True):
            assert part in change
    bare = gs.load(tmp_path / "n-symbol.json")
    assert find_changes(pair_both(bare, bare), across_dtypes=False)[1] == ()


def test_models_without_outputs_are_named(tmp_path: Path) -> None:
    models = [load(tmp_path, name) for name in "ab"]
    empty = [gs.Checkpoint(Graph(model.graph.nodes, ()), where=model.where) for model in models]
    for pair, lacking in ((empty, empty), ([models[0], empty[1]], empty[1:])):
        with pytest.raises(RefusedError) as caught:
            pair_models(*pair, (), {})
        assert [fault.where for fault in caught.value.faults] == [each.where for each in lacking]
        assert all("has no outputs" in fault.message for fault in caught.value.faults)
