"""The summary of a difference: what the changes of a kind have in common."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from tests.processes import ROOT
from tests.symbols import Record, document, operator, variable


@pytest.fixture
def lenet(tmp_path: Path) -> gs.Checkpoint:
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    return gs.load(tmp_path / "lenet")


def summary(left: gs.Checkpoint, right: gs.Checkpoint) -> list[str]:
    return [part.text for part in gs.diff(left, right).summary]


def renamed(model: gs.Checkpoint, folder: Path, names: dict[str, str]) -> gs.Checkpoint:
    (folder / "names.json").write_text(json.dumps(names))
    return gs.rename(model, map=folder / "names.json")


def test_renamed_nodes_are_described_by_what_became_of_their_names(
    lenet: gs.Checkpoint, tmp_path: Path
) -> None:
    prefixed = gs.rename(lenet, prefix="net1_")
    assert summary(lenet, prefixed) == ["31 nodes renamed: all have the prefix net1_"]
    assert summary(prefixed, lenet) == ["31 nodes renamed: all lost the prefix net1_"]
    assert summary(prefixed, gs.rename(lenet, prefix="net2_")) == [
        "31 nodes renamed: all have the prefix net2 instead of net1"
    ]
    names = {node.name: f"{node.name}_b" for node in lenet.graph.nodes}
    suffixed = renamed(lenet, tmp_path, names)
    assert summary(lenet, suffixed) == ["31 nodes renamed: all have the suffix _b"]
    assert summary(suffixed, lenet) == ["31 nodes renamed: all lost the suffix _b"]
    mixed = renamed(lenet, tmp_path, {**dict(list(names.items())[:20]), "softmax": "out"})
    assert summary(lenet, mixed) == ["21 nodes renamed: 20 have the suffix _b, 1 otherwise"]


def test_added_and_removed_nodes_are_described_by_prefix_or_operator(lenet: gs.Checkpoint) -> None:
    siamese = gs.duplicate(lenet, "sha-", mode="tie")
    assert summary(lenet, siamese) == [
        "15 nodes added: all have the prefix sha-",
        "1 output changed",
    ]
    assert summary(siamese, lenet)[0] == "15 nodes removed: all have the prefix sha-"
    three = gs.duplicate(lenet, ["a-", "b-"], mode="copy")
    assert summary(lenet, three) == [
        "62 nodes added: 31 have the prefix a-, 31 have the prefix b-",
        "2 outputs changed",
        "32 parameters added",
    ]
    cut = gs.extract(lenet, "pool2")
    assert (
        summary(lenet, cut)[0]
        == "10 nodes removed: variable 5, FullyConnected 2, Flatten 1 and 2 more"
    )


def test_changed_nodes_and_parameters_are_described_by_what_changed(
    lenet: gs.Checkpoint, tmp_path: Path
) -> None:
    text = (tmp_path / "lenet-symbol.json").read_text()
    (tmp_path / "b-symbol.json").write_text(
        text.replace('"act_type": "tanh"', '"act_type": "relu"')
    )
    moved = {name: np.array(array) for name, array in lenet.params.items()}
    moved["fc2_bias"][3] += 0.25
    moved["fc1_bias"][0] += 0.125
    other = gs.load(tmp_path / "b-symbol.json").with_params(moved)
    assert summary(lenet, other) == [
        "3 nodes changed: attribute act_type of 3 (tanh -> relu)",
        "2 parameters changed: values of 2; max abs 0.25",
    ]
    assert summary(lenet, lenet) == []


def test_long_names_are_compared_in_linear_time(tmp_path: Path) -> None:
    """The prefixes of a name of a million characters would be a terabyte of text."""
    text = (ROOT / "fixtures" / "lenet-symbol.json").read_text()
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(
            text.replace('"flatten"', f'"{name * 1_000_000}"').replace(
                '"name": "tanh', f'"name": "{name}tanh'
            )
        )
    assert (
        gs.diff(tmp_path / "a.json", tmp_path / "b.json", renames=False).summary[0].what
        == "removed"
    )
    found = gs.diff(tmp_path / "a.json", tmp_path / "b.json").summary
    assert [part.text for part in found] == [
        "4 nodes renamed: 3 have the prefix b instead of a, 1 otherwise"
    ]


def write_graph(path: Path, nodes: Iterable[Record]) -> Path:
    """Write a graph of the operators and variables, whose outputs are all of them; operators read
    the first variable.
    """
    nodes = list(nodes)
    path.write_text(json.dumps(document(nodes, range(len(nodes)))))
    return path


def chain(names: Iterable[str], op: str = "tanh", **attrs: str) -> list[Record]:
    """Return a variable and operators that read it."""
    return [
        variable("x"),
        *(operator(op, name, [0], **({"attrs": attrs} if attrs else {})) for name in names),
    ]


@pytest.mark.parametrize(
    ("renames", "text"),
    [
        ({"a": "net_a"}, "1 node renamed: each otherwise"),
        ({"a": "b"}, "1 node renamed: each otherwise"),
        ({"fc1": "fc2", "ab1": "ab2"}, "2 nodes renamed: all have the suffix 2 instead of 1"),
        ({"1fc": "2fc", "1ab": "2ab"}, "2 nodes renamed: all have the prefix 2 instead of 1"),
        ({"a_1": "a", "b_1": "b"}, "2 nodes renamed: all lost the suffix _1"),
        ({"a": "", "b": "c"}, "2 nodes renamed: each otherwise"),
        # Three groups are named, of two nodes or more each.
        (
            {"a": "p_a", "b": "p_b", "c": "p_c", "d": "q_d", "e": "q_e", "f": "g"},
            "6 nodes renamed: 3 have the prefix p_, 2 have the prefix q_, 1 otherwise",
        ),
        (
            {f"{i}{j}": f"{i}_{i}{j}" for i in "abcd" for j in "xy"},
            "8 nodes renamed: 2 have the prefix a_, 2 have the prefix b_, 2 have the prefix c_, 2 otherwise",
        ),
        # A group that is smaller than a fifth of all is chance.
        (
            {**{f"{i}": f"{i}!" for i in "abcdefghi"}, "j": "_j", "k": "_k"},
            "11 nodes renamed: 9 have the suffix !, 2 otherwise",
        ),
        (
            {**{f"{i}": f"{i}!" for i in "abcdefgh"}, "j": "_j", "k": "_k"},
            "10 nodes renamed: 8 have the suffix !, 2 have the prefix _",
        ),
    ],
)
def test_renames_are_counted_by_what_they_have_in_common(
    renames: dict[str, str], text: str, tmp_path: Path
) -> None:
    left = write_graph(tmp_path / "a.json", chain(renames))
    right = write_graph(tmp_path / "b.json", chain(renames.values()))
    assert [part.text for part in gs.diff(left, right).summary] == [text]


@pytest.mark.parametrize(
    ("added", "text"),
    [
        ([operator("tanh", "a", [0])], "1 node added: tanh 1"),
        ([variable("v")], "1 node added: variable 1"),
        (
            [operator("tanh", "n_y", [0]), operator("relu", "n_z", [0])],
            "2 nodes added: all have the prefix n_",
        ),
        (
            [operator("tanh", "ny", [0]), operator("relu", "nz", [0])],
            "2 nodes added: all have the prefix n",
        ),
        ([operator("tanh", "n_y", [0])], "1 node added: tanh 1"),
        (
            [
                operator("tanh", "n_y", [0]),
                operator("relu", "n_z", [0]),
                variable("v"),
                operator("exp", "w", [0]),
            ],
            "4 nodes added: 2 have the prefix n_, variable 1, exp 1",
        ),
        (
            [
                operator(op, f"{op}{i}", [0])
                for i, op in enumerate(("tanh", "exp", "exp", "relu", "sqrt", "abs"))
            ],
            "6 nodes added: exp 2, tanh 1, relu 1 and 2 more",
        ),
        (
            [operator("tanh", f"{'n' * 399}{end}", [0]) for end in "yz"],
            f"2 nodes added: all have the prefix {'n' * 381}...",
        ),
        ([operator("tanh", f"{'n' * 400}{end}", [0]) for end in "yz"], "2 nodes added: tanh 2"),
    ],
)
def test_added_nodes_are_counted_by_prefix_and_operator(
    added: list[Record], text: str, tmp_path: Path
) -> None:
    nodes = chain("yz")
    left = write_graph(tmp_path / "a.json", nodes)
    right = write_graph(tmp_path / "b.json", [*nodes, *added])
    assert gs.diff(left, right, renames=False).summary[0].text == text
    assert gs.diff(right, left, renames=False).summary[0].text == text.replace("added", "removed")


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ([{"k": "2"}, {"k": "2"}], "2 nodes changed: attribute k of 2 (1 -> 2)"),
        ([{"k": "2"}, {"k": "3"}], "2 nodes changed: attribute k of 2"),
        ([{"k": "2"}, {}], "2 nodes changed: attribute k of 2"),
        ([{"k": ""}, {"k": "1"}], "1 node changed: attribute k of 1 (1 -> '')"),
        ([{}, {}], "2 nodes changed: attribute k of 2 (1 -> none)"),
        (
            [{"k": "2", "l": "5"}, {"k": "2"}],
            "2 nodes changed: attribute k of 2 (1 -> 2), attribute l of 1 (none -> 5)",
        ),
        (
            [{"k": "1", "l": "1", "m": "1", "n": "1", "o": "1"}, {"k": "1"}],
            "1 node changed: "
            + ", ".join(f"attribute {key} of 1 (none -> 1)" for key in "lmn")
            + " and 1 more",
        ),
    ],
)
def test_changes_of_nodes_have_their_values_where_they_are_all_the_same(
    changed: list[dict[str, str]], text: str, tmp_path: Path
) -> None:
    left = write_graph(tmp_path / "a.json", chain("yz", k="1"))
    nodes = [
        variable("x"),
        *(
            operator("tanh", name, [0], attrs=attrs)
            for name, attrs in zip("yz", changed, strict=True)
        ),
    ]
    assert [
        part.text for part in gs.diff(left, write_graph(tmp_path / "b.json", nodes)).summary
    ] == [text]


def test_a_changed_input_has_no_values(tmp_path: Path) -> None:
    nodes = [variable("x"), variable("w"), operator("tanh", "y", [0])]
    other = [*nodes[:2], operator("tanh", "y", [1])]
    found = gs.diff(
        write_graph(tmp_path / "a.json", nodes),
        write_graph(tmp_path / "b.json", other),
        renames=False,
    )
    assert [part.text for part in found.summary] == ["1 node changed: inputs of 1"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, None),
        ({"a": [1.5, 2.0]}, "1 parameter changed: values of 1; max abs 0.5"),
        ({"a": [1.5, 2.0], "b": [3.0, 6.0]}, "2 parameters changed: values of 2; max abs 2"),
        ({"a": [float("nan"), 2.0]}, "1 parameter changed: values of 1"),
        ({"a": None}, "1 parameter removed"),
        ({"c": [1.0]}, "1 parameter added"),
        ({"a": [1.0, 2.0, 3.0]}, "1 parameter changed: shape, type or storage of 1"),
        (
            {"a": None, "b": [3.0, 5.0], "c": [1.0]},
            "3 parameters changed: 1 removed, values of 1, 1 added; max abs 1",
        ),
        ({"a": None, "c": [1.0]}, "2 parameters changed: 1 removed, 1 added"),
    ],
)
def test_changes_of_parameters_are_counted_by_kind(
    changes: dict[str, list[float] | None], text: str | None, tmp_path: Path
) -> None:
    graph = gs.load(
        write_graph(tmp_path / "a.json", [*map(variable, "abc"), operator("tanh", "y", [0])])
    )
    arrays = {"a": np.array([1.0, 2.0], "float32"), "b": np.array([3.0, 4.0], "float32")}
    others = {
        **arrays,
        **{
            key: value if value is None else np.array(value, "float32")
            for key, value in changes.items()
        },
    }
    left = graph.with_params(arrays)
    right = graph.with_params({key: array for key, array in others.items() if array is not None})
    assert [part.text for part in gs.diff(left, right).summary] == ([] if text is None else [text])


def test_the_first_six_names_are_told_where_no_node_has_the_prefix(tmp_path: Path) -> None:
    path = write_graph(tmp_path / "a.json", chain("abcdefg"))
    with pytest.raises(
        gs.RefusedError, match="no node has the prefix 'p_' before a name of"
    ) as caught:
        gs.diff(path, path, prefixes=["p_"])
    assert caught.value.faults[0].hint == "its nodes are x, a, b, c, d, e and 2 more"


def test_parameters_that_one_side_alone_has_are_not_compared(lenet: gs.Checkpoint) -> None:
    graph = gs.load(ROOT / "fixtures" / "lenet-symbol.json", params=None)
    for left, right in ((lenet, graph), (graph, lenet), (graph, graph)):
        found = gs.diff(left, right)
        assert found.parameters is None
        assert found.verdict == "SAME: the graphs"
    found = gs.diff(lenet, lenet)
    assert found.parameters is not None
    assert found.verdict == "SAME: the graphs and their parameters"
