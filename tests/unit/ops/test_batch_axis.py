"""Where samples are behind each kind of operator."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import pytest

from graphshare.analysis.batch_axis import At, Coupling, follow_batch
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.walk import reachable
from graphshare.ops import batch_axis
from graphshare.ops.index import FAMILY_OF
from graphshare.ops.registry import find_batch_rule, load_registered_signatures
from tests.surroundings import size_of_day
from tests.symbols import document, mxnet_text, operator, variable


def follow(
    op: str, attrs: dict[str, str], *axes: int | None, shape: str = ""
) -> tuple[list[At | None], list[Coupling]]:
    """The outputs of one operator whose inputs have samples on ``axes``; an input without any has None."""
    declared = {"attrs": {"__shape__": shape}} if shape else {}
    nodes = [
        *(variable(f"x{i}", **declared) for i in range(len(axes))),
        operator(op, "op", range(len(axes)), attrs=attrs),
    ]
    graph = read_symbol(mxnet_text(document(nodes, [len(axes)], row_ptr=False)).encode())
    inputs = {graph.nodes[i]: axis for i, axis in enumerate(axes) if axis is not None}
    found, couplings = follow_batch(reachable(graph), inputs)
    return [found.get((graph.nodes[-1], i)) for i in range(3)], couplings


MOVES = [
    ("relu", {}, (2,), At(2)),
    ("broadcast_add", {}, (1, None), At(1)),
    ("FullyConnected", {"num_hidden": "3", "no_bias": "True"}, (0, None), At(0, 2)),
    (
        "FullyConnected",
        {"num_hidden": "3", "no_bias": "True", "flatten": "False"},
        (1, None),
        At(1),
    ),
    (
        "Convolution",
        {"kernel": "(3, 3)", "num_filter": "1", "no_bias": "True"},
        (0, None),
        At(0, 4),
    ),
    ("slice_axis", {"axis": "-1", "begin": "5", "end": "None"}, (0,), At(0)),
    ("Flatten", {}, (0,), At(0, 2)),
    ("Reshape", {"shape": "(0, -1)"}, (0,), At(0, 2)),
    ("Reshape", {"shape": "(-1, 0)", "reverse": "True"}, (0,), At(0, 2)),
    ("Reshape", {"shape": "(-3, 0)"}, (0,), At(0)),
    ("Reshape", {"shape": "(-4, -1, 2, 0)"}, (0,), At(0)),
    ("Reshape", {"shape": "(0, 0, 2, -1)"}, (1,), At(1, 4)),
    ("Reshape", {"target_shape": "(0, 8)"}, (0,), At(0, 2)),
    ("transpose", {"axes": "(1, 0, 2)"}, (0,), At(1, 3)),
    ("transpose", {"axes": "(2, 0, 1)"}, (2,), At(0, 3)),
    ("SwapAxis", {"dim1": "0", "dim2": "2"}, (2,), At(0)),
    ("expand_dims", {"axis": "0"}, (0,), At(1, None, 1)),
    ("expand_dims", {"axis": "-1"}, (0,), At(0, None, 1)),
    ("squeeze", {"axis": "0"}, (1,), At(0, None, -1)),
    ("stack", {"axis": "0", "num_args": "2"}, (0, 0), At(1, None, 1)),
    ("sum", {"axis": "0"}, (1,), At(0, None, -1)),
    ("sum", {"axis": "0", "keepdims": "True"}, (1,), At(1)),
    ("mean", {"axis": "0", "exclude": "False"}, (2,), At(1, None, -1)),
    ("sum", {"axis": "1", "exclude": "True"}, (1,), At(0)),
    ("softmax", {}, (0,), At(0)),
    ("LayerNorm", {}, (0, None, None), At(0)),
    ("Concat", {"dim": "1", "num_args": "2"}, (0, 0), At(0)),
    (
        "SliceChannel",
        {"axis": "1", "num_outputs": "2", "squeeze_axis": "True"},
        (2,),
        At(1, None, -1),
    ),
    ("slice", {"begin": "(None, 1)", "end": "(None, 2)"}, (0,), At(0)),
    ("slice_like", {}, (0, 0), At(0)),
    ("slice_like", {"axes": "(2, 3)"}, (0, None), At(0)),
    ("broadcast_like", {}, (None, 0), At(0)),
    ("broadcast_to", {"shape": "(0, 3)"}, (0,), At(0, 2)),
    ("tile", {"reps": "(1, 3)"}, (0,), At(0)),
    ("repeat", {"repeats": "2", "axis": "0"}, (0,), At(0)),
    ("take", {}, (None, 0), At(0)),
    ("take", {"axis": "2"}, (1, None), At(1)),
    ("Embedding", {"input_dim": "3", "output_dim": "2"}, (0, None), At(0, None, 1)),
    ("dot", {}, (0, None), At(0)),
    ("batch_dot", {}, (0, 0), At(0)),
    ("BatchNorm", {"use_global_stats": "True"}, (0, None, None, None, None), At(0)),
    ("SoftmaxOutput", {}, (0, 0), At(0)),
    ("RNN", {"state_size": "2", "num_layers": "1", "mode": "gru"}, (1, None, 1), At(1, 3)),
    ("SequenceLast", {"use_sequence_length": "True"}, (1, 0), At(0, None, -1)),
    ("SequenceMask", {"use_sequence_length": "True", "axis": "1"}, (0, 0), At(0)),
    ("CTCLoss", {}, (1, 0), At(0)),
    ("_contrib_interleaved_matmul_selfatt_qk", {"heads": "2"}, (1,), At(0, 3)),
    ("_contrib_interleaved_matmul_selfatt_valatt", {"heads": "2"}, (1, 0), At(1, 3)),
    ("_contrib_quantize_v2", {"min_calib_range": "-1", "max_calib_range": "1"}, (0,), At(0)),
    ("Pooling", {"kernel": "(2, 2)", "pool_type": "max"}, (0,), At(0, 4)),
]


@pytest.mark.parametrize(
    ("op", "attrs", "axes", "wanted"),
    MOVES,
    ids=lambda v: str(v) if isinstance(v, (str, dict)) else "",
)
def test_samples_are_followed(
    op: str, attrs: dict[str, str], axes: tuple[int | None, ...], wanted: At
) -> None:
    found, couplings = follow(op, attrs, *axes)
    assert couplings == []
    assert found[0] == wanted


MIXES = [
    ("broadcast_add", {}, (0, 1)),
    ("FullyConnected", {"num_hidden": "3", "no_bias": "True"}, (0, 0)),
    ("FullyConnected", {"num_hidden": "3", "no_bias": "True"}, (1, None)),
    ("Convolution", {"kernel": "(3, 3)", "num_filter": "1", "no_bias": "True"}, (1, None)),
    ("Reshape", {"shape": "(-4, 2, -1)"}, (0,)),
    ("Reshape", {"shape": "(0, -1)"}, (1,)),
    ("Reshape", {"shape": "(0, -1)", "reverse": "True"}, (0,)),
    ("Reshape", {"shape": "(-4,)"}, (0,)),
    ("transpose", {}, (0,)),
    ("transpose", {"axes": "(0,)"}, (3,)),
    ("softmax", {}, (1,)),
    ("softmax", {"axis": "-2"}, (0,)),
    ("sum", {"axis": "-2", "exclude": "True"}, (0,)),
    ("squeeze", {}, (0,)),
    ("squeeze", {"axis": "0"}, (0,)),
    ("slice_like", {}, (0, None)),
    ("slice_like", {}, (None, 0)),
    ("tile", {"reps": "(2, 1)"}, (0,)),
    ("tile", {"reps": "(2, 1)"}, (1,)),
    ("take", {}, (0, None)),
    ("dot", {"transpose_a": "True"}, (0, None)),
    ("dot", {}, (None, 0)),
    ("RNN", {"state_size": "2", "num_layers": "1", "mode": "gru"}, (1, None, 0)),
    ("SequenceMask", {}, (0,)),
    ("CTCLoss", {}, (0, 0)),
    ("L2Normalization", {}, (1,)),
    ("BatchNorm", {}, (0, None, None, None, None)),
    ("BatchNorm", {"axis": "0", "use_global_stats": "True"}, (0, None, None, None, None)),
    ("IdentityAttachKLSparseReg", {}, (0, None)),
    ("ROIPooling", {"pooled_size": "(2, 2)", "spatial_scale": "1"}, (0, 0)),
    ("_contrib_arange_like", {}, (0,)),
    ("_contrib_arange_like", {"axis": "0"}, (0,)),
    ("size_array", {}, (0,)),
    ("expand_dims", {}, (0,)),
    ("expand_dims", {"axis": "x"}, (0,)),
    ("SwapAxis", {"dim1": "-1"}, (0,)),
    ("Custom", {"op_type": "mine"}, (0,)),
    ("Nobody", {}, (0,)),
]


@pytest.mark.parametrize(
    ("op", "attrs", "axes"), MIXES, ids=lambda v: str(v) if isinstance(v, (str, dict)) else ""
)
def test_what_mixes_samples_is_found(
    op: str, attrs: dict[str, str], axes: tuple[int | None, ...]
) -> None:
    found, couplings = follow(op, attrs, *axes)
    assert [(c.node.op, bool(c.why)) for c in couplings] == [(op, True)]
    assert found[0] == At(0)


SQUEEZED = [
    ("sum", {"axis": "-3"}),
    ("squeeze", {"axis": "(-3,)"}),
    ("SliceChannel", {"axis": "-3", "num_outputs": "1", "squeeze_axis": "True"}),
    ("pick", {"axis": "-3"}),
]


@pytest.mark.parametrize(("op", "attrs"), SQUEEZED, ids=lambda v: str(v))
def test_a_negative_axis_before_the_samples_moves_them(op: str, attrs: dict[str, str]) -> None:
    found, couplings = follow(op, attrs, 1, *([None] if op == "pick" else []), shape="(1, 2, 3)")
    assert couplings == []
    assert found[0] is not None
    assert found[0].axis == 0


def test_a_declared_rank_settles_axes_from_behind() -> None:
    assert follow("softmax", {"axis": "-2"}, 0, shape="(2, 3)")[1]
    assert follow("sum", {"axis": "(-3, -2)", "exclude": "True"}, 1, shape="(1, 2, 3)")[0][0] == At(
        1
    )
    assert not follow("softmax", {"axis": "-2"}, 0, shape="(2, 3, 4)")[1]
    assert follow("transpose", {}, 0, shape="(2, 3, 4)")[0][0] == At(2, 3)
    assert follow("softmax", {}, 1, shape="(2, 3)")[1]
    assert not follow("softmax", {}, 1, shape="(2, 3, 4)")[1]


def test_ranges_of_quantized_arrays_bear_no_samples() -> None:
    found, couplings = follow(
        "_contrib_quantize_v2", {"min_calib_range": "-1", "max_calib_range": "1"}, 0
    )
    assert (found, couplings) == ([At(0), None, None], [])


def test_statistics_bear_no_samples() -> None:
    for attrs, mixed in (
        ({"output_mean_var": "True"}, 1),
        ({"output_mean_var": "True", "use_global_stats": "True"}, 0),
    ):
        found, couplings = follow("BatchNorm", {**attrs, "axis": "2"}, 1, None, None, None, None)
        assert (found, len(couplings)) == ([At(1), None, None], mixed)


def test_what_does_not_depend_on_the_batch_is_left_alone() -> None:
    assert follow("sum", {}, None) == ([None, None, None], [])
    assert follow("_contrib_MultiBoxPrior", {}, 0) == ([None, None, None], [])
    assert follow("_contrib_arange_like", {"axis": "1"}, 0) == ([None, None, None], [])


def test_every_rule_is_of_an_operator_of_its_family() -> None:
    families = sorted(set(FAMILY_OF.values()))
    tables = {
        family: getattr(import_module(f"graphshare.ops.{family}.signature"), "RULES", None)
        for family in families
    }
    rules = {family: table for family, table in tables.items() if table is not None}
    assert sum(map(len, rules.values())) > 80
    assert [
        (family, name)
        for family, names in rules.items()
        for name in names
        if FAMILY_OF.get(name) != family
    ] == []


def test_every_class_of_the_table_is_answered() -> None:
    answered = {None, "elementwise", "never", "always"}
    left = {
        name
        for name, row in load_registered_signatures().items()
        if row.couples_batch not in answered and find_batch_rule(name) is None
    }
    assert left == set()


ODD = (
    "",
    "-9",
    "7",
    "(7, 7)",
    "()",
    "None",
    "x",
    "(-4,)",
    "(0, 0, 0, 0, 0, 0, 0, 0)",
    "99999999999999999999",
)


@pytest.mark.parametrize("name", sorted(load_registered_signatures()))
def test_no_operator_ends_in_a_bug_whatever_its_attributes_say(name: str) -> None:
    """Every registered operator with odd attributes: an answer, or a coupling."""
    signature = load_registered_signatures()[name]
    keys = [parameter.name for parameter in signature.parameters or ()]
    for text in ODD[:: size_of_day(2, 1)] if keys else ("",):
        for axes in ((0,), (3, 0), (None, 1, 0)):
            follow(name, dict.fromkeys(keys, text), *axes)
            follow(name, dict.fromkeys(keys, text), *axes, shape="(2,)")


def test_quantized_operators_refuse_a_range_for_each_sample() -> None:
    attrs = {"kernel": "(1, 1)", "pool_type": "max"}
    assert follow("_contrib_quantized_pooling", attrs, 0, None, None)[1] == []
    _, (coupling,) = follow("_contrib_quantized_pooling", attrs, 0, 0, None)
    assert (
        coupling.why
        == "has a range for each sample in min_data, but computes with one range for all"
    )


def follow_from(
    op: str, attrs: dict[str, str], axis: int, *, rank: int | None = None, shape: str = ""
) -> dict[str, At]:
    """The places of the samples in the input ``x`` and in each output of an operator, by name and index."""
    declared = {"attrs": {"__shape__": shape}} if shape else {}
    nodes = [variable("x", **declared), operator(op, "op", [0], attrs=attrs)]
    graph = read_symbol(mxnet_text(document(nodes, [1], row_ptr=False)).encode())
    found, _ = follow_batch(graph.nodes, {graph.nodes[0]: axis}, rank=rank)
    return {f"{node.name}{index}": at for (node, index), at in found.items()}


@pytest.mark.parametrize(
    ("rank", "shape", "expected"),
    [
        (None, "", None),
        (3, "", 3),
        (None, "(2, 3)", 2),
        (None, "[2,3,4]", 3),
        (None, "(2,)", 1),
        (None, "()", None),
        (3, "(2, 3)", 3),
    ],
)
def test_the_rank_is_the_given_or_the_declared_one(
    rank: int | None, shape: str, expected: int | None
) -> None:
    assert follow_from("relu", {}, 0, rank=rank, shape=shape)["x0"] == At(0, expected)


@pytest.mark.parametrize(
    ("op", "attrs", "outputs"),
    [
        ("relu", {}, 1),
        ("Mine", {}, 1),
        ("SliceChannel", {"num_outputs": "3"}, 3),
        ("SliceChannel", {"num_outputs": "3", "axis": "0"}, 3),
        ("SliceChannel", {"num_outputs": "3", "axis": "x"}, 3),
    ],
)
def test_every_output_has_a_place_and_no_other_one(
    op: str, attrs: dict[str, str], outputs: int
) -> None:
    assert list(follow_from(op, attrs, 0)) == ["x0", *(f"op{i}" for i in range(outputs))]


@pytest.mark.parametrize(
    ("axis", "rank", "is_lost"),
    [
        (0, 1, False),
        (1, 1, True),
        (1, 2, False),
        (2, 2, True),
        (3, 2, True),
        (5, None, False),
        (-1, None, True),
        (-1, 3, True),
    ],
)
def test_an_axis_that_there_is_not_holds_no_samples(
    axis: int, rank: int | None, is_lost: bool
) -> None:
    graph = read_symbol(
        mxnet_text(
            document([variable("x"), operator("relu", "op", [0])], [1], row_ptr=False)
        ).encode()
    )
    found, couplings = follow_batch(graph.nodes, {graph.nodes[0]: axis}, rank=rank)
    assert [coupling.why for coupling in couplings] == [
        "moves the samples to an axis that there is not"
    ] * is_lost
    assert found[graph.nodes[1], 0] == (At(0) if is_lost else At(axis, rank))


@pytest.mark.parametrize(
    ("ranks", "apart"),
    [
        ([(4, 0), (4, 0)], False),
        ([(4, 0), (3, 0)], True),
        ([(4, 0), (None, 0)], False),
        ([(1, 0), (None, 0)], True),
        ([(1, 0), (1, 0)], False),
        ([(None, 0), (None, 1)], True),
        ([(None, 1), (None, 1)], False),
        ([(4, 0), None], False),
    ],
)
def test_ranks_of_which_one_may_be_stretched(
    ranks: list[tuple[int | None, int] | None], apart: bool
) -> None:
    use = SimpleNamespace(inputs=[None if rank is None else At(0, *rank) for rank in ranks])
    assert batch_axis._broadcast_apart(cast(Any, use)) is apart
