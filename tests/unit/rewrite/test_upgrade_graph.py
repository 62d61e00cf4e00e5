"""The steps of MXNet's loader, one by one."""

from __future__ import annotations

import pytest

from graphshare.errors import RefusedError
from graphshare.ir.graph import Graph
from graphshare.rewrite.upgrade_graph import list_refused_keys, upgrade_graph
from tests.symbols import document, old_batch_norm, operator, siamese, two_layers, variable
from tests.unit.rewrite.graphs import heads, named, read, wiring
from tests.validate import validate


def upgraded(nodes: list[dict[str, object]], version: int | None = 10901) -> Graph:
    return upgrade_graph(read(document(nodes, [len(nodes) - 1], version=version))).graph


def test_a_graph_of_today_keeps_its_nodes_in_the_order_of_mxnet() -> None:
    graph = read(two_layers())
    result = upgrade_graph(graph)
    assert list(wiring(result.graph)) == [node.name for node in graph.nodes]
    assert result.graph.version == 10901
    assert validate(result.graph) == []


def test_an_alias_becomes_the_canonical_name() -> None:
    assert (
        upgraded([variable("x"), operator("Flatten", "f", [0]), operator("flatten", "g", [1])])
        .nodes[2]
        .op
        == "Flatten"
    )


def test_implied_states_become_nodes_with_their_initializers() -> None:
    graph = upgrade_graph(read(old_batch_norm())).graph
    states = named(graph, "bn").inputs[3:]
    assert [entry.node.name for entry in states] == ["bn_moving_mean", "bn_moving_var"]
    assert [entry.node.attrs["__init__"] for entry in states] == ['["zero", {}]', '["one", {}]']


def test_a_hidden_attribute_moves_to_its_variable() -> None:
    dense = {"num_hidden": "2", "weight_lr_mult": "3", "no_bias": "True"}
    nodes = [variable("x"), variable("w"), operator("FullyConnected", "fc", [0, 1], attrs=dense)]
    graph = upgraded(nodes, version=800)
    assert named(graph, "w").attrs["__lr_mult__"] == "3"
    assert "weight_lr_mult" not in named(graph, "fc").attrs


@pytest.mark.parametrize(("op", "attrs"), [("relu", {}), ("MakeLoss", {"grad_scale": "2"})])
def test_a_hidden_attribute_of_no_input_stays_where_mxnet_does_not_read_it_again(
    op: str, attrs: dict[str, str]
) -> None:
    stated = {**attrs, "other_lr_mult": "3"}
    nodes = [variable("x"), operator(op, "n", [0], attrs=stated)]
    assert named(upgraded(nodes, version=800), "n").attrs == stated


def test_a_hidden_attribute_of_no_input_is_refused_where_mxnet_reads_it_again() -> None:
    nodes = [
        variable("x"),
        operator("FullyConnected", "n", [0], attrs={"num_hidden": "2", "other_lr_mult": "3"}),
    ]
    with pytest.raises(
        RefusedError, match="attribute 'other_lr_mult' does not belong to FullyConnected"
    ):
        upgraded(nodes, version=800)


def test_argmax_over_all_axes_loses_its_axis() -> None:
    nodes = [variable("x"), operator("argmax", "a", [0], attrs={"axis": "-1"})]
    assert named(upgraded(nodes, version=900), "a").attrs == {}
    assert named(upgraded(nodes), "a").attrs == {"axis": "-1"}


def test_casts_are_removed_unless_a_head_names_them() -> None:
    nodes = [
        variable("x"),
        operator("amp_cast", "c", [0], attrs={"dtype": "float16"}),
        operator("relu", "r", [1]),
    ]
    assert wiring(upgraded(nodes)) == {"x": [], "r": ["x"]}
    kept = upgrade_graph(read(document(nodes, [2])), keep_amp_cast=True)
    assert wiring(kept.graph)["r"] == ["c"]
    both = upgrade_graph(read(document(nodes, [2, 1])))
    assert heads(both.graph) == ["r", "c"]


@pytest.mark.parametrize(("written", "version"), [([0, 0], 0), ([0, 0, 0], 0), ([0, 0, 3], 3)])
def test_an_input_without_a_version_has_version_0(written: list[int], version: int) -> None:
    relu = {**operator("relu", "r", [0]), "inputs": [written]}
    (entry,) = named(upgraded([variable("x"), relu]), "r").inputs
    assert (entry.node.name, entry.index, entry.version) == ("x", 0, version)


def test_unreachable_nodes_have_no_image() -> None:
    nodes = [variable("x"), operator("tanh", "idle", [0]), operator("relu", "r", [0])]
    graph = read(document(nodes, [2]))
    (branch,) = upgrade_graph(graph).branches
    assert [node.name for node in branch.images] == ["x", "r"]


def test_every_unknown_operator_is_listed() -> None:
    nodes = [
        variable("x"),
        operator("Nobody", "a", [0]),
        operator("Custom", "b", [1]),
        operator("Nothing", "c", [2]),
    ]
    with pytest.raises(RefusedError) as refused:
        upgraded(nodes)
    assert [fault.node for fault in refused.value.faults] == ["a", "b", "c"]


def test_the_source_is_not_changed() -> None:
    graph = read(siamese())
    before = wiring(graph)
    upgrade_graph(graph)
    assert wiring(graph) == before


def test_each_output_of_a_cast_of_several_is_its_own_input() -> None:
    cast = operator("amp_multicast", "c", [0, 1], attrs={"num_outputs": "2"})
    again = operator("amp_multicast", "d", [(2, 1, 0), (2, 0, 0)], attrs={"num_outputs": "2"})
    nodes = [
        variable("x"),
        variable("z"),
        cast,
        again,
        operator("elemwise_sub", "s", [(3, 0, 0), (3, 1, 0)]),
    ]
    assert wiring(upgraded(nodes)) == {"z": [], "x": [], "s": ["z", "x"]}


@pytest.mark.parametrize(
    ("value", "attrs"),
    [
        (["int", 1], {"is_np_shape": ["int", 1], "mxnet_version": ["int", 10901]}),
        (["int", 0], {"mxnet_version": ["int", 10901]}),
        (["int"], {"mxnet_version": ["int", 10901]}),
    ],
)
def test_graph_attributes_are_those_of_mxnet(
    value: list[object], attrs: dict[str, list[object]]
) -> None:
    text = document([variable("x"), operator("relu", "r", [0])], [1])
    text["attrs"] |= {"is_np_shape": value, "other": ["int", 1]}
    graph = upgrade_graph(read(text)).graph
    assert list(graph.attrs.items()) == list(attrs.items())


def test_keys_that_mxnet_refuses_are_listed_by_operator() -> None:
    """In an older file, and of an operator whose attributes are parsed again."""
    attrs = {
        "num_hidden": "2",
        "weight_lr_mult": "2",
        "other_lr_mult": "3",
        "bias_other_wd_mult": "1",
    }
    nodes = [
        variable("x"),
        variable("n_weight"),
        operator("FullyConnected", "n", [0, 1], attrs=attrs),
    ]
    graph = read(document(nodes, [2], version=800))
    assert list_refused_keys(graph) == {named(graph, "n"): ["other_lr_mult", "bias_other_wd_mult"]}
    nodes[2]["attrs"] = {"num_hidden": "2", "weight_lr_mult": "2", "lr_mult": "3"}
    assert list_refused_keys(read(document(nodes, [2], version=800))) == {}
