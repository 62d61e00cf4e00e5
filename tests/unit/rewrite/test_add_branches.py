"""Branches on copied and on tied parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.api.duplicate import duplicate
from graphshare.errors import RefusedError
from graphshare.ir.graph import Kept
from graphshare.rewrite.add_branches import add_branches
from tests.symbols import document, operator, siamese, two_layers, variable
from tests.unit.rewrite.graphs import heads, named, read, wiring
from tests.validate import validate


def test_a_copied_branch_has_nodes_of_its_own() -> None:
    graph = read(siamese())
    rewrite = add_branches(graph, ["sha-"])
    assert wiring(rewrite.graph) == {
        **wiring(graph),
        "sha-data": [],
        "sha-conv_weight": [],
        "sha-conv": ["sha-data", "sha-conv_weight"],
        "sha-loss": ["sha-conv"],
    }
    assert heads(rewrite.graph) == ["loss", "sha-loss"]
    assert validate(rewrite.graph) == []


def test_the_original_stays_the_same_nodes() -> None:
    graph = read(siamese())
    rewrite = add_branches(graph, ["a-", "b-"])
    assert isinstance(rewrite.branches[0].images, Kept)
    assert rewrite.graph.nodes[:4] == graph.nodes
    assert [branch.label for branch in rewrite.branches] == ["", "a-", "b-"]


def test_a_shared_variable_is_one_node_of_all_branches() -> None:
    graph = read(siamese())
    weight = named(graph, "conv_weight")
    rewrite = add_branches(graph, ["a-", "b-"], shared={weight})
    assert [branch.images[weight] for branch in rewrite.branches] == [weight] * 3
    assert wiring(rewrite.graph)["b-conv"] == ["b-data", "conv_weight"]
    assert len(rewrite.graph.nodes) == 10


def test_mutations_of_a_shared_state_are_numbered_branch_by_branch() -> None:
    graph = read(two_layers())
    states = {named(graph, "bn_moving_mean"), named(graph, "bn_moving_var")}
    rewrite = add_branches(graph, ["a-", "b-"], shared=states)
    versions = [
        [e.version for e in named(rewrite.graph, f"{prefix}bn").inputs[3:]]
        for prefix in ("", "a-", "b-")
    ]
    assert versions == [[1, 1], [2, 2], [3, 3]]


def test_a_name_is_taken_only_by_a_copy() -> None:
    nodes = [
        variable("data"),
        variable("w"),
        operator("dot", "mul", [0, 1]),
        variable("a-w"),
        operator("dot", "out", [2, 3]),
    ]
    graph = read(document(nodes, [4]))
    shared = {named(graph, "w")}
    assert "a-a-w" in wiring(add_branches(graph, ["a-"], shared=shared).graph)
    with pytest.raises(RefusedError, match="a-w"):
        add_branches(graph, ["a-"])


def test_without_the_original_only_the_copies_are_left() -> None:
    graph = read(siamese())
    rewrite = add_branches(graph, ["a-"], shared={named(graph, "conv_weight")}, drop_original=True)
    assert list(wiring(rewrite.graph)) == ["a-data", "conv_weight", "a-conv", "a-loss"]
    assert heads(rewrite.graph) == ["a-loss"]


def test_the_key_of_a_barrier_is_made_unique() -> None:
    nodes = [variable("x"), operator("_contrib_SyncBatchNorm", "bn", [0], attrs={"key": "k"})]
    copy = named(add_branches(read(document(nodes, [1], row_ptr=False)), ["a-"]).graph, "a-bn")
    assert copy.attrs == {"key": "a-k"}


def test_a_mode_holds_for_all_parameters_and_the_last_choice_wins() -> None:
    graph = read(two_layers())
    choices = [("copy", "fc2*"), ("tie", "fc2_weight")]
    tied = duplicate(graph, ["a-"], mode="tie", choices=choices[:1])
    assert [node.name for node in tied.report.copied] == ["fc2_weight"]
    assert duplicate(graph, ["a-"], mode="tie", choices=choices).report.copied == ()
    assert [
        node.name for node in duplicate(graph, ["a-"], choices=[("tie", "fc1*")]).report.tied
    ] == [
        "fc1_weight",
        "fc1_bias",
    ]


def test_a_copy_up_to_an_output_holds_what_that_needs() -> None:
    rewrite = duplicate(read(two_layers()), ["a-"], upto=["fc1_output"])
    assert [name for name in wiring(rewrite.graph) if name.startswith("a-")] == [
        "a-data",
        "a-fc1_weight",
        "a-fc1_bias",
        "a-fc1",
    ]
    assert heads(rewrite.graph) == ["softmax", "a-fc1"]


@pytest.mark.parametrize("prefixes", [[], [""], ["a-", "a-"], ["\0"]])
def test_prefixes_that_make_no_names_are_refused(prefixes: list[str]) -> None:
    with pytest.raises(RefusedError):
        duplicate(read(siamese()), prefixes)


def test_all_patterns_without_a_match_are_listed() -> None:
    with pytest.raises(RefusedError) as refused:
        duplicate(read(siamese()), ["a-"], choices=[("tie", "none"), ("copy", "data")])
    assert len(refused.value.faults) == 2


def test_inputs_that_cannot_be_shared_are_explained() -> None:
    with pytest.raises(RefusedError) as caught:
        duplicate(read(siamese()), ["a-"], share_inputs=["conv_w*", "dat"])
    hints = [(fault.message, fault.hint) for fault in caught.value.faults]
    assert hints == [
        (
            "`share_inputs` 'conv_w*' matches no input",
            "parameters are shared with `choices=[('tie', PATTERN)]`",
        ),
        ("`share_inputs` 'dat' matches no input", "did you mean 'data'?"),
    ]


def test_a_variable_of_unknown_role_is_noted_and_not_tied() -> None:
    graph = read(
        document([variable("data"), variable("odd_weight"), operator("MyOp", "my", [0, 1])], [2])
    )
    with pytest.raises(
        RefusedError, match=r"cannot tell whether '(data|odd_weight)' is a parameter"
    ):
        duplicate(graph, ["a-"], mode="tie")
    notes = duplicate(graph, ["a-"], mode="copy").notes
    assert [note for note in notes if "may be an input or a parameter" in note]
    assert not [
        note for note in duplicate(read(siamese()), ["a-"]).notes if "may be an input" in note
    ]


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("copy", "not copied: every branch calls the same functions, which have one of each"),
        ("tie", "tied: every branch calls the same functions"),
    ],
)
def test_weights_in_functions_are_those_of_all_branches(
    mode: Any, words: str, tmp_path: Path
) -> None:
    onnx = pytest.importorskip("onnx")
    text = """<ir_version: 9, opset_import: ["" : 17, "own" : 1]> g (float[2,256] x) => (float[2,256] y) { y = own.F(x) }
        <domain: "own", opset_import: ["" : 17]> F (i) => (o) { c = Constant <value = float {0.5}> () o = Add(i, c) }"""
    model = onnx.parser.parse_model(text)
    model.functions[0].node[0].attribute[0].t.CopyFrom(
        onnx.numpy_helper.from_array(np.ones(256, np.float32))
    )
    onnx.save(model, tmp_path / "m.onnx")
    assert (
        f"1 weight in functions {words}" in gs.duplicate(tmp_path / "m.onnx", "b_", mode=mode).notes
    )
