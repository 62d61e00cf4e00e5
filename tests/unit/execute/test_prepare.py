"""What a run is given where the caller says nothing: drawn values, an upgrade in memory, a batch of one sample."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.analysis.roles import assign_roles
from graphshare.errors import InputError, MemoryLimitError, RefusedError, UsageError
from graphshare.execute.prepare import memory
from graphshare.execute.prepare.assignment import DrawOptions
from graphshare.execute.prepare.feeds import load_feeds, parse_feeds
from graphshare.execute.prepare.memory import check_memory
from graphshare.execute.prepare.prepare import UPGRADED_BEFORE, Request, prepare, upgrade_part
from graphshare.execute.prepare.shape_report import Shaped, infer_part, shape_graph
from graphshare.execute.prepare.variable_values import (
    check_shapes,
    convert_feed,
    draw_input,
    draw_inputs,
    draw_parameter,
    largest_integer,
)
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Entry, Graph
from graphshare.ops.inference import infer
from tests.symbols import document, mxnet_text, operator, two_layers, variable


def read(nodes: list[dict[str, object]], version: int | None = 10901) -> Graph:
    return read_symbol(mxnet_text(document(nodes, [len(nodes) - 1], version=version)).encode())


@pytest.mark.parametrize(
    "version", [None, UPGRADED_BEFORE - 1, UPGRADED_BEFORE, UPGRADED_BEFORE + 1]
)
def test_a_graph_that_lacks_nothing_is_upgraded_if_it_is_old(version: int | None) -> None:
    graph = read([variable("x"), operator("tanh", "y", [0])], version)
    part, images, implied = upgrade_part(graph, graph.heads)
    assert implied == 0
    assert bool(images) is (version is None or version < UPGRADED_BEFORE)
    assert [node.name for node in part.nodes] == ["x", "y"]


def test_labels_and_states_are_zeros_and_data_are_drawn() -> None:
    names = ("data", "rnn_parameters", "state", "state_cell", "label")
    nodes = [variable(name) for name in names]
    attrs = {"mode": "lstm", "num_layers": "1", "state_size": "2"}
    nodes += [
        operator("RNN", "rnn", [0, 1, 2, 3], attrs=attrs),
        operator("SoftmaxOutput", "out", [5, 4]),
    ]
    graph = read(nodes)
    roles = assign_roles(graph)
    inference = infer(graph, {graph.nodes[0]: (3, 4, 2)}, {})
    known = {graph.nodes[1]: np.ones(1)}
    drawn = draw_inputs(graph.nodes, known, inference, roles, seed=0)
    assert {node.name: bool(value.any()) for node, value in drawn.items()} == {
        "data": True,
        "state": False,
        "state_cell": False,
        "label": False,
    }
    # Nothing is known of what they are
    unknown = draw_inputs(graph.nodes, known, inference, {}, seed=0)
    assert {node.name for node, value in unknown.items() if value.any()} >= {
        "data",
        "state",
        "state_cell",
    }


@pytest.mark.parametrize(
    ("shapes", "samples", "expected"),
    [
        (("(0, 3)", "(2, 3)"), [], (2, 3)),
        (("(0, 3)", "(0, 3)"), ["x", "z"], (1, 3)),
        (("(0, 3)", None), ["x", "z"], (1, 3)),
        (("(0, 0, 3)", None), [], (None, None, 3)),
        (("(0, 0)", "(2, 3)"), [], (2, 3)),
        (("(2, 3)", "(2, 3)"), [], (2, 3)),
        ((None, None), [], None),
    ],
)
def test_an_unknown_batch_is_one_sample(
    shapes: tuple[str | None, ...], samples: list[str], expected: tuple[int | None, ...] | None
) -> None:
    nodes = [
        variable(name, **({"attrs": {"__shape__": shape}} if shape else {}))
        for name, shape in zip("xz", shapes, strict=True)
    ]
    shaped = shape_graph(read([*nodes, operator("elemwise_add", "y", [0, 1])]), {}, one_sample=True)
    assert (shaped.samples, shaped.outputs[-1].shape) == (samples, expected)


@pytest.mark.parametrize("shape", [(0, 3), (None, 3), (5, 3), (0, 2, 3)])
def test_only_inputs_are_samples_and_the_rest_follows(shape: tuple[int | None, ...]) -> None:
    """Parameters and labels have unknown shapes too, which follow from the data."""
    graph = read_symbol(mxnet_text(two_layers()).encode())
    given = {"data": tuple(size or None for size in shape)}
    shaped = shape_graph(graph, given, one_sample=True)
    batch = shape[0] or 1
    assert shaped.samples == ([] if shape[0] else ["data"])
    found = {output.name: (output.op, output.shape, output.dtype) for output in shaped.outputs}
    assert found["data"] == ("null", (batch, *shape[1:]), "float32")
    assert found["fc1_weight"] == ("null", (4, shape[-1] * (2 if len(shape) > 2 else 1)), "float32")
    assert found["softmax_label"] == ("null", (batch,), "float32")
    assert found["softmax_output"] == ("SoftmaxOutput", (batch, 2), "float32")
    assert shaped.unsupported == []
    without = shape_graph(graph, given)
    assert without.samples == []
    assert (without.outputs[-1].shape or ())[:1] == (shape[0] or None,)


def test_a_batch_of_one_that_contradicts_sizes_inside_stays_unknown() -> None:
    nodes = [
        variable("x", attrs={"__shape__": "(0, 3)"}),
        variable("z", attrs={"__shape__": "(2, 3)"}),
    ]
    graph = read([*nodes, operator("Concat", "y", [0, 1], attrs={"dim": "1", "num_args": "2"})])
    shaped = shape_graph(graph, {}, one_sample=True)
    assert shaped.outputs[-1].shape == (2, 6)


def read_cells(shaped: Shaped) -> list[str]:
    """Return the texts of the cells that a notebook shows."""
    return re.findall("<t[hd](?: [^>]*)?>(.*?)</t[hd]>", shaped._repr_html_())


def test_the_table_of_shapes_says_what_is_not_known() -> None:
    nodes = [
        variable("x"),
        operator("Unknown", "u", [0]),
        operator("Mystery", "m", [1]),
        operator("tanh", "y", [2]),
    ]
    shaped = shape_graph(read(nodes), {"x": (None, 3)}, one_sample=True)
    assert shaped.unsupported == ["Unknown", "Mystery"]
    assert [output.shape for output in shaped.outputs] == [(1, 3), None, None, None]
    assert read_cells(shaped) == [
        *(
            "parameters",
            "0",
            "multiply-adds",
            "0",
            "operators of unknown shape",
            "Unknown, Mystery",
            "batch of 1",
            "x",
        ),
        *("output", "operator", "shape", "dtype"),
        *("x", "variable", "1x3", "float32"),
        *("u_output", "Unknown", "?", "?"),
        *("m_output", "Mystery", "?", "?"),
        *("y_output", "tanh", "?", "?"),
    ]
    layers = shape_graph(read_symbol(mxnet_text(two_layers()).encode()), {"data": (2000, 3)})
    assert read_cells(layers)[:4] == ["parameters", "32", "multiply-adds", "40,000"]


@pytest.mark.parametrize(("seed", "params_seed"), [(0, 0), (0, 1), (1, 0), (7, 5)])
def test_values_are_drawn_from_the_seed_that_was_given(seed: int, params_seed: int) -> None:
    graph = read_symbol(mxnet_text(two_layers()).encode())
    shapes = {"data": (2, 3)}
    prepared = prepare(graph, Request(draw=DrawOptions(seed, params_seed)), {}, shapes)
    values = {node.name: (node, array) for node, array in prepared.values.items()}
    node, data = values["data"]
    assert data.tobytes() == draw_input(node, (2, 3), "float32", seed=seed).tobytes()
    node, weight = values["fc1_weight"]
    assert weight.tobytes() == draw_parameter(node, (4, 3), "float32", seed=params_seed).tobytes()
    assert not values["softmax_label"][1].any()


# Bytes alive at a time: x 24, and of the half-precision nodes each 12. The last user of a value frees it, heads stay.
@pytest.mark.parametrize(
    ("limit", "keeps_all", "fault"),
    [
        (60, False, ""),
        (
            59,
            False,
            "c: the outputs of elemwise_add (2,3) take 12 B, 60 B with all that is kept beside them",
        ),
        (
            47,
            False,
            "b: the outputs of relu (2,3) take 12 B, 48 B with all that is kept beside them",
        ),
        (23, False, "x: the values (2,3) take 24 B"),
        (72, True, ""),
        (
            71,
            True,
            "d: the outputs of relu (2,3) take 12 B, 72 B with all that is kept beside them",
        ),
    ],
)
def test_the_memory_of_a_run_is_that_of_the_values_alive_at_a_time(
    limit: int, keeps_all: bool, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [
        variable("x"),
        operator("Cast", "a", [0], attrs={"dtype": "float16"}),
        operator("relu", "b", [1]),
        operator("elemwise_add", "c", [1, 2]),
        operator("relu", "d", [3]),
    ]
    graph = read_symbol(mxnet_text(document(nodes, [2, 4])).encode())
    inference = infer(graph, {graph.nodes[0]: (2, 3)}, {graph.nodes[0]: "float32"})
    monkeypatch.setattr(
        memory, "describe_excess", lambda size, held: "too much" if size > limit else ""
    )
    if not fault:
        check_memory(graph.nodes, graph.heads, inference, {}, keeps_all=keeps_all)
        return
    with pytest.raises(MemoryLimitError) as caught:
        check_memory(graph.nodes, graph.heads, inference, {}, keeps_all=keeps_all)
    found = caught.value.faults[0]
    assert f"{found.node}: {found.message}" == f"{fault}, too much"


def test_files_of_arrays_are_fed_to_the_variables_that_are_named(tmp_path: Path) -> None:
    one, two = tmp_path / "one.npy", tmp_path / "two.npz"
    np.save(one, np.array([1.0]))
    np.savez(two, a=np.array([2.0]), b=np.array([3.0]))

    def load(*feeds: tuple[str, Path | str]) -> dict[str, Any]:
        return {
            name: np.asarray(x).tolist()
            for name, x in load_feeds([(name, str(path)) for name, path in feeds]).items()
        }

    assert load(("x", one)) == {"x": [1.0]}
    assert load(("", two)) == {"a": [2.0], "b": [3.0]}
    assert load(("b", two), ("x", "4"), ("y", "[5, 6]")) == {"b": [3.0], "x": 4, "y": [5, 6]}
    unclear = "it is not clear which array of {} belongs to which variable".format
    for feeds, messages, hint in (
        ([("c", two)], [unclear(two)], "it must hold one array, or one of that name"),
        ([("", one)], [unclear(one)], f"--feed NAME={one}"),
        (
            [("", two), ("b", one), ("a", one)],
            ["--feed gives 'b' twice", "--feed gives 'a' twice"],
            "",
        ),
    ):
        with pytest.raises(UsageError) as caught:
            load(*feeds)
        assert [fault.message for fault in caught.value.faults] == messages
        assert (caught.value.faults[0].hint or "") == hint
    with pytest.raises(InputError) as unreadable:
        load(("x", tmp_path / "no.npy"), ("c", two), ("y", tmp_path / "none.npy"))
    assert len(unreadable.value.faults) == 2


def test_the_shape_of_a_label_is_asked_for_where_inputs_are_known() -> None:
    nodes = [
        variable("data"),
        variable("label"),
        operator("SoftmaxOutput", "out", [0, 1]),
        variable("spare"),
    ]
    graph = read([*nodes, operator("relu", "other", [3])])
    pair = Graph(graph.nodes, (*graph.heads, Entry(graph.nodes[2])), graph.attrs, graph.source)
    for given, asked in (({}, ["spare", "data"]), ({"data": (2, 3)}, ["spare"])):
        with pytest.raises(RefusedError) as caught:
            infer_part(pair, params=None, shapes=given, types={}, targets=[], as_input=["spare"])
        assert [fault.node for fault in caught.value.faults] == asked
    idle = {"spare": (5, 6)}
    part = infer_part(
        pair,
        params=None,
        shapes={"data": (2, 3), **idle},
        types={"spare": "float16"},
        targets=["out"],
    )
    assert [part.inference.shapes[node][0] for node in part.part.nodes] == [(2, 3), (2,), (2, 3)]
    with pytest.raises(RefusedError, match="`feeds` 'labels' names no variable"):
        infer_part(pair, params=None, shapes={}, types={"labels": "float16"}, targets=["out"])


def test_integers_are_drawn_below_their_limit() -> None:
    (node,) = read([variable("x")]).nodes
    for dtype, limit, expected in (
        ("int32", None, {0, 1}),
        ("bool", None, {False, True}),
        ("float32", 3, {0, 1, 2}),
    ):
        drawn = draw_input(node, (100,), dtype, seed=1, limit=limit)
        assert (str(drawn.dtype), set(drawn.tolist())) == (dtype, expected)
        assert (
            dtype == "float32"
            or drawn.tolist() == draw_parameter(node, (100,), dtype, seed=1).tolist()
        )
    dtypes = {
        "int8": 127,
        "uint8": 255,
        "int64": 2**63 - 1,
        "bool": 1,
        "float16": 2048,
        "float32": 2**24,
        "float64": 2**53,
    }
    assert {dtype: largest_integer(dtype) for dtype in dtypes} == dtypes
    for dtype in ("float16", "float32", "float64"):
        assert np.array(dtypes[dtype], dtype) + np.array(1, dtype) == dtypes[dtype]


def test_parameters_are_drawn_by_their_ending_and_shape() -> None:
    graph = read(
        [variable("w_gamma"), variable("w_var"), variable("w"), operator("add_n", "y", [0, 1, 2])]
    )
    gamma, var, weight = graph.variables()
    for node in (gamma, var):
        drawn = draw_parameter(node, (400,), "float64", seed=0)
        assert drawn.min() >= 1
        assert drawn.mean() == pytest.approx(1 + 0.1 * np.sqrt(2 / np.pi), abs=0.01)
    for shape, scale in (
        ((4000,), 0.1),
        ((400, 8), 0.5),
        ((100, 2, 4, 4), 0.25),
        ((4000, 1), np.sqrt(2)),
        ((2, 0), 1.0),
    ):
        drawn = draw_parameter(weight, shape, "float64", seed=0)
        assert drawn.shape == shape
        assert not drawn.size or drawn.std() == pytest.approx(scale, rel=0.06)


def test_numbers_that_an_integer_dtype_lacks_are_refused() -> None:
    array = np.array([1.0, 2.0], "float32")
    assert convert_feed("x", array, None) is array
    assert convert_feed("x", array, "float32") is array
    assert convert_feed("x", array, "uint8").dtype == "uint8"
    assert convert_feed("x", np.array([0.1]), "float16").tolist() == [np.float16(0.1)]
    for wrong, dtype in (([1.5], "int32"), ([256.0], "uint8"), ([2.0], "bool")):
        with pytest.raises(
            RefusedError, match=f"'x' is float64, and not all of its values fit into {dtype}"
        ):
            convert_feed("x", np.array(wrong), dtype)


def test_shapes_that_do_not_fit_those_inferred_are_all_listed() -> None:
    x, z = read([variable("x"), variable("z"), operator("elemwise_add", "y", [0, 1])]).variables()
    inference = infer(read([variable("x")]), {}, {})
    inference.shapes.update({x: [(2, None)], z: [None]})
    check_shapes({x: (2, 3), z: (1,)}, inference)
    with pytest.raises(RefusedError) as caught:
        check_shapes({x: (3, 3), z: (5,)}, inference)
    assert [fault.message for fault in caught.value.faults] == [
        "'x' has the shape (3,3), which does not fit (2,?)"
    ]


def test_values_that_are_held_count_beside_those_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = read([variable("x"), variable("w"), operator("elemwise_mul", "y", [0, 1])])
    x, w = graph.variables()
    inference = infer(graph, {x: (5,)}, {x: "float32", w: "float32"})
    for limit, keeps_all, message in (
        (
            59,
            False,
            "the outputs of elemwise_mul (5) take 20 B, 60 B with all that is kept beside them, too much",
        ),
        (15, False, "the values (5) take 20 B, 40 B with all that is kept beside them, too much"),
        (
            79,
            True,
            "the outputs of elemwise_mul (5) take 20 B, 80 B with all that is kept beside them, too much",
        ),
        (80, True, None),
        (60, False, None),
    ):
        monkeypatch.setattr(
            memory,
            "describe_excess",
            lambda size, held, limit=limit: "too much" if size + held > limit else "",
        )
        values = {w: np.ones(5, "float32")}
        if message is None:
            check_memory(graph.nodes, graph.heads, inference, values, keeps_all=keeps_all)
            continue
        with pytest.raises(MemoryLimitError) as caught:
            check_memory(graph.nodes, graph.heads, inference, values, keeps_all=keeps_all)
        assert [fault.message for fault in caught.value.faults] == [message]


def test_a_feed_is_a_name_and_a_file_or_a_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b.npy").write_bytes(b"")
    texts = [
        "data=x.npy",
        "x.npy",
        "a=b.npy",
        "b=a.npy",
        "https://host/a=b.npy",
        "x=https://host/a=b.npy",
        "x=file:///a%20b.npy",
    ]
    assert parse_feeds(texts) == [
        ("data", "x.npy"),
        ("", "x.npy"),
        ("", "a=b.npy"),
        ("b", "a.npy"),
        ("", "https://host/a=b.npy"),
        ("x", "https://host/a=b.npy"),
        ("x", "/a b.npy"),
    ]


@pytest.mark.parametrize(("seed", "number"), [(0, 0), (7, 7)])
def test_what_was_drawn_is_noted(seed: int, number: int) -> None:
    nodes = [variable(name) for name in ("data", "rnn_parameters", "state", "state_cell", "label")]
    attrs = {"mode": "lstm", "num_layers": "1", "state_size": "2"}
    nodes += [
        operator("RNN", "rnn", [0, 1, 2, 3], attrs=attrs),
        operator("SoftmaxOutput", "out", [5, 4]),
    ]
    shapes = {"data": (3, 4, 2)}
    prepared = prepare(read(nodes), Request(draw=DrawOptions(seed, seed)), {}, shapes)
    assert prepared.notes == [
        f"parameters drawn from seed {number}: rnn_parameters (48,)",
        f"inputs drawn from seed {number}: data (3, 4, 2)",
        "labels and states that are not fed are zeros: state (1, 4, 2), state_cell (1, 4, 2), label (3, 4)",
    ]
