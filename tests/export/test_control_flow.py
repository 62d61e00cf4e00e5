"""Nodes with subgraphs in ONNX: control flow, and layers that oneDNN joins, against what MXNet 1.9.1 computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from graphshare.api.export import export
from graphshare.api.run import run
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import RefusedError
from graphshare.formats.mxnet.symbol import read_symbol
from tests.elementwise import describe_mismatch
from tests.export.judge import export_graph, run_onnx
from tests.export.test_recorded import EVERYDAY
from tests.kernels.recordings import WITH_BODIES, cases, recorded, recorded_outputs, tolerance_of
from tests.kernels.test_bodies import graph_of
from tests.surroundings import pick_everyday
from tests.symbols import document, mxnet_text, operator, variable


def everyday_cases() -> list[Any]:
    """Return the recorded cases, of which those of the joined layers are tried in an everyday run one in so many."""
    every = list(cases(WITH_BODIES))
    picked = set(
        pick_everyday((str(case.id) for case in every if case.values[0] == "joined"), EVERYDAY)
    )
    left_out = [case.values[0] == "joined" and case.id not in picked for case in every]
    marks = [[pytest.mark.large] if out else [] for out in left_out]
    return [
        pytest.param(*case.values, id=case.id, marks=each)
        for case, each in zip(every, marks, strict=True)
    ]


@pytest.mark.parametrize(("family", "number", "case"), everyday_cases())
def test_onnx_computes_what_mxnet_computed(family: str, number: int, case: dict[str, Any]) -> None:
    kept = recorded(family)
    wanted = recorded_outputs(family, number)
    graph = graph_of(case, len(wanted))
    arrays = {node: kept[f"{number}_{node.name}"] for node in graph.variables()}
    data = export_graph(graph, arrays, ())
    assert not isinstance(data, RefusedError), str(data)
    outputs, judge = run_onnx(data, {node.name: x for node, x in arrays.items()})
    assert judge == "onnxruntime"
    for got, want in zip(outputs, wanted, strict=True):
        mismatch = describe_mismatch(np.asarray(got), want, tolerance_of(case, want))
        assert mismatch is None, mismatch


def body(inputs: list[str], *operators: Any, heads: list[Any]) -> dict[str, Any]:
    found = document([*map(variable, inputs), *operators], heads)
    del found["attrs"]
    return found


def agrees(
    found: dict[str, Any], arrays: dict[str, Any], stored: tuple[str, ...] = ()
) -> onnx.ModelProto:
    """Compare onnxruntime with the executor, and return the model."""
    graph = read_symbol(mxnet_text(found).encode())
    values = {node: arrays[node.name] for node in graph.variables()}
    data = export_graph(graph, values, [node for node in values if node.name in stored])
    assert not isinstance(data, RefusedError), str(data)
    got, judge = run_onnx(data, arrays)
    assert judge == "onnxruntime"
    wanted = run(graph, feeds=arrays).outputs.values()
    for x, y in zip(got, wanted, strict=True):
        mismatch = describe_mismatch(x, y)
        assert mismatch is None, mismatch
    return onnx.load_from_string(data)


FOREACH = {
    "num_args": "3",
    "num_outputs": "2",
    "num_out_data": "1",
    "in_data_locs": "[0]",
    "in_state_locs": "[1]",
}
FOREACH["remain_locs"] = "[]"
NP_SHAPE = {"is_np_shape": ["int", 1]}
BELOW = body(["i", "n"], operator("broadcast_lesser", "less", [0, 1]), heads=[2])
NEXT = body(["i"], operator("_plus_scalar", "next", [0], attrs={"scalar": "1"}), heads=[0, 1])
WHILE = {
    "num_args": "4",
    "num_outputs": "2",
    "num_out_data": "1",
    "max_iterations": "5",
    "cond_input_locs": "[0, 1]",
}
WHILE.update(func_input_locs="[0]", func_var_locs="[0]")


def a_loop(
    op: str, attrs: dict[str, str], inputs: list[str], subgraphs: list[dict[str, Any]]
) -> dict[str, Any]:
    nodes = [
        *map(variable, inputs),
        operator(op, "loop", range(len(inputs)), attrs=attrs, subgraphs=subgraphs),
    ]
    return document(nodes, [(len(inputs), i, 0) for i in range(int(attrs["num_outputs"]))])


@pytest.mark.parametrize("limit", [0, 2, 7])
def test_a_loop_that_stops_early_or_never_begins(limit: int) -> None:
    arrays = {"i": np.zeros(1, "float32"), "n": np.full(1, limit, "float32")}
    agrees(a_loop("_while_loop", WHILE, ["i", "n"], [BELOW, NEXT]), arrays)


def test_a_loop_over_nothing() -> None:
    step = body(["x", "s"], operator("elemwise_add", "next", [0, 1]), heads=[2, 2])
    arrays = {"x": np.zeros((0, 2), "float32"), "s": np.ones(2, "float32")}
    agrees(
        {
            **(found := a_loop("_foreach", FOREACH, ["x", "s"], [step])),
            "attrs": found["attrs"] | NP_SHAPE,
        },
        arrays,
    )


@pytest.mark.parametrize("op", ["_foreach", "_while_loop"])
def test_a_state_whose_dtype_a_step_changes(op: str) -> None:
    """onnxruntime returned its bytes in the other dtype."""
    more = operator("_plus_scalar", "next", [1], attrs={"scalar": "1.5", "is_int": "False"})
    if op == "_foreach":
        found = a_loop(op, FOREACH, ["x", "s"], [body(["x", "s"], more, heads=[0, 2])])
        arrays = {"x": np.ones((3, 2), "int8"), "s": np.ones(2, "int8")}
    else:
        attrs = WHILE | {
            "num_outputs": "2",
            "cond_input_locs": "[1]",
            "func_input_locs": "[1, 0]",
            "func_var_locs": "[1]",
        }
        condition = body(
            ["n"], operator("_greater_scalar", "more", [0], attrs={"scalar": "0"}), heads=[1]
        )
        found = a_loop(op, attrs, ["i", "n"], [condition, body(["n", "i"], more, heads=[0, 2])])
        arrays = {"i": np.zeros(1, "int8"), "n": np.ones(1, "int8")}
    graph = read_symbol(mxnet_text(found).encode())
    with pytest.raises(RefusedError, match="a step turns a state of int8 into float64"):
        run(graph, feeds=arrays)
    assert "a step turns a state of int8 into float64" in str(
        export_graph(graph, {n: arrays[n.name] for n in graph.variables()}, ())
    )


def test_variables_of_a_loop_that_start_from_one_input() -> None:
    next_ = [
        operator("_plus_scalar", "next", [0], attrs={"scalar": "1"}),
        operator("elemwise_add", "sum", [1, 0]),
    ]
    attrs = WHILE | {
        "num_outputs": "3",
        "cond_input_locs": "[0, 1]",
        "func_input_locs": "[0, 0]",
        "func_var_locs": "[0, 1]",
    }
    arrays = {"i": np.full(1, 2, "float32"), "n": np.full(1, 9, "float32")}
    agrees(
        a_loop(
            "_while_loop", attrs, ["i", "n"], [BELOW, body(["i", "s"], *next_, heads=[0, 2, 3])]
        ),
        arrays,
    )


def a_recurrent_layer() -> dict[str, Any]:
    dense = operator(
        "FullyConnected", "dense", [0, 1], attrs={"num_hidden": "3", "no_bias": "True"}
    )
    half = operator("_mul_scalar", "half", [3], attrs={"scalar": "0.5"})
    step = body(
        ["x", "w", "s"], dense, half, operator("elemwise_add", "next", [4, 2]), heads=[3, 5]
    )
    attrs = FOREACH | {"num_args": "4", "in_state_locs": "[2]", "remain_locs": "[1]"}
    return a_loop("_foreach", attrs, ["x", "s", "w"], [step])


def test_steps_and_batch_that_the_caller_chooses(tmp_path: Path) -> None:
    """The constant of the body stays, and the sizes inside of it are free too."""
    graph, rng = read_symbol(mxnet_text(a_recurrent_layer()).encode()), np.random.default_rng(2)
    weight = rng.normal(size=(3, 3)).astype("float32")
    model = Checkpoint(graph).with_params({"w": weight})
    shapes = {"x": ("steps:4", "batch:2", 3), "s": ("batch", 3)}
    made = export(model, tmp_path / "loop.onnx", shapes=shapes, as_input=["x", "s"])
    assert made.report.proof
    feeds = {"x": rng.normal(size=(6, 5, 3)).astype("float32"), "s": np.ones((5, 3), "float32")}
    got, _ = run_onnx((tmp_path / "loop.onnx").read_bytes(), feeds)
    for x, y in zip(got, run(graph, feeds=feeds | {"w": weight}).outputs.values(), strict=True):
        assert describe_mismatch(x, y) is None


def test_weights_are_read_inside_of_a_body_once() -> None:
    rng = np.random.default_rng(1)
    arrays = {
        "x": rng.normal(size=(4, 2, 3)),
        "s": rng.normal(size=(2, 3)),
        "w": rng.normal(size=(3, 3)),
    }
    arrays = {name: x.astype("float32") for name, x in arrays.items()}
    model = agrees(a_recurrent_layer(), arrays, stored=("w",))
    assert [tensor.name for tensor in model.graph.initializer if tensor.dims] == ["w"]
    assert [value.name for value in model.graph.input] == ["x", "s"]


def test_loops_and_branches_within_each_other() -> None:
    """A branch runs a loop, whose body branches over a value from outside of both."""
    positive = body(["c"], operator("_greater_scalar", "p", [0], attrs={"scalar": "0"}), heads=[1])
    keep, turn = body(["x"], heads=[0]), body(["x"], operator("negative", "n", [0]), heads=[1])
    choice = {
        "num_args": "5",
        "num_outputs": "1",
        "cond_input_locs": "[0]",
        "then_input_locs": "[1]",
        "else_input_locs": "[1]",
    }
    turned = operator("_cond", "turned", [0, 1], attrs=choice, subgraphs=[positive, keep, turn])
    step = body(["c", "x", "s"], turned, operator("elemwise_add", "next", [3, 2]), heads=[3, 4])
    places = {"num_args": "4", "in_data_locs": "[1]", "in_state_locs": "[2]", "remain_locs": "[0]"}
    loop = operator("_foreach", "run", [0, 1, 2], attrs=FOREACH | places, subgraphs=[step])
    then = body(["x", "s", "c"], loop, heads=[(3, 1, 0)])
    other = body(["s"], heads=[0])
    attrs = {
        "num_args": "7",
        "num_outputs": "1",
        "cond_input_locs": "[0]",
        "then_input_locs": "[2, 1, 3]",
    }
    nodes = [*map(variable, ("a", "s", "x", "c"))]
    nodes.append(
        operator(
            "_cond",
            "choice",
            range(4),
            attrs=attrs | {"else_input_locs": "[1]"},
            subgraphs=[positive, then, other],
        )
    )
    for a in (1.0, -1.0):
        for c in (1.0, -1.0):
            arrays = {
                "a": np.full(1, a),
                "c": np.full(1, c),
                "s": np.ones(2),
                "x": np.arange(6.0).reshape(3, 2),
            }
            agrees(document(nodes, [4]), {name: x.astype("float32") for name, x in arrays.items()})


@pytest.mark.parametrize("domain", ["", "mine"])
def test_a_subgraph_in_a_domain_of_its_own_keeps_its_nodes(domain: str, tmp_path: Path) -> None:
    step = body(
        ["x", "s"],
        operator("_linalg_gelqf", "factor", [0]),
        operator("elemwise_add", "next", [2, 1]),
        heads=[2, 3],
    )
    graph = read_symbol(mxnet_text(a_loop("_foreach", FOREACH, ["x", "s"], [step])).encode())
    options: Any = {
        "shapes": {"x": (4, 2, 2), "s": (2, 2)},
        "as_input": ["x", "s"],
        "custom_domain": domain,
    }
    if not domain:
        with pytest.raises(
            RefusedError,
            match="_foreach cannot be exported: in its subgraph, operator _linalg_gelqf",
        ):
            export(Checkpoint(graph), tmp_path / "x.onnx", **options)
        return
    export(Checkpoint(graph), tmp_path / "x.onnx", **options)
    (scan,) = (node for node in onnx.load(tmp_path / "x.onnx").graph.node if node.op_type == "Scan")
    (inner,) = (attribute.g for attribute in scan.attribute if attribute.name == "body")
    assert [(node.op_type, node.domain) for node in inner.node][:2] == [
        ("_linalg_gelqf", "mine"),
        ("Add", ""),
    ]


def test_a_loop_is_never_a_node_of_another_domain(tmp_path: Path) -> None:
    """It would lose its subgraphs."""
    several = body(["i", "n"], operator("broadcast_lesser", "less", [0, 1]), heads=[2, 2])
    graph = read_symbol(
        mxnet_text(a_loop("_while_loop", WHILE, ["i", "n"], [several, NEXT])).encode()
    )
    options: Any = {
        "shapes": {"i": (1,), "n": (1,)},
        "as_input": ["i", "n"],
        "custom_domain": "mine",
    }
    with pytest.raises(
        RefusedError, match="_while_loop cannot be exported: its condition is not one number"
    ):
        export(Checkpoint(graph), tmp_path / "x.onnx", **options)


@pytest.mark.parametrize(
    ("number", "dtype"), [(50, "int32"), (57, "float32"), (5, "int32"), (23, "bool")]
)
def test_quantized_layers_of_other_data_than_bytes(number: int, dtype: str) -> None:
    case, kept = (
        next(c.values[2] for c in cases(WITH_BODIES) if c.values[:2] == ("joined", number)),
        recorded("joined"),
    )
    graph = graph_of(case, 3)
    arrays = {node: kept[f"{number}_{node.name}"] for node in graph.variables()}
    arrays = {node: x.astype(dtype) if node.name == "in0" else x for node, x in arrays.items()}
    refused = export_graph(graph, arrays, ())
    assert isinstance(refused, RefusedError)
    assert f"its data is {dtype}, expected int8 or uint8" in str(refused)


def test_scores_of_heads_without_width() -> None:
    case = next(c.values[2] for c in cases(WITH_BODIES) if c.values[:2] == ("joined", 75))
    graph = graph_of(case, 1)
    arrays = dict(
        zip(
            graph.variables(),
            (np.zeros((3, 2, 0), np.int8), *np.ones((2, 1), np.float32)),
            strict=True,
        )
    )
    assert "its heads have the width 0" in str(export_graph(graph, arrays, ()))
